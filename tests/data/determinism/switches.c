// Big switches: dense, sparse, nested, with shared targets.
int dense(int x) {
  switch (x) {
  case 0: return 3; case 1: return 6; case 2: return 9; case 3: return 12; case 4: return 15;
  case 5: return 1; case 6: return 2; case 7: return 3; case 8: return 5; case 9: return 8;
  case 10: return 13; case 11: return 21; case 12: return 34; case 13: return 55;
  default: return -1;
  }
}
int sparse(unsigned x, int *p) {
  switch (x) {
  case 1: p[0]++; break; case 10: p[1]++; break; case 100: p[2]++; break;
  case 1000: p[3]++; break; case 10000: p[0]--; break; case 100000: p[1]--; break;
  case 7: case 77: case 777: case 7777: p[2]--; break;
  case 1u << 30: return 4; case 1u << 31: return 5; case ~0u: return 6;
  default: if (x > 5000) return 9; p[4] = x;
  }
  return p[0] + p[4];
}
int lexer(const char *s) {
  int state = 0, n = 0;
  for (; *s; s++) {
    switch (state) {
    case 0:
      switch (*s) {
      case ' ': case '\t': case '\n': break;
      case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8': case '9':
        state = 1; n++; break;
      case '"': state = 2; break;
      case '/': state = s[1] == '/' ? 3 : 0; break;
      case '(': case '{': case '[': n += 10; break;
      case ')': case '}': case ']': n -= 10; break;
      default: state = 4;
      }
      break;
    case 1: if (*s < '0' || *s > '9') { state = 0; s--; } break;
    case 2: if (*s == '\\') s++; else if (*s == '"') { state = 0; n += 3; } break;
    case 3: if (*s == '\n') state = 0; break;
    case 4: switch (*s) { case ' ': case '(': case ')': case ';': state = 0; n++; s--; }
    }
  }
  return n * 5 + state;
}
int chain(int x) {
  if (x == 1 || x == 5 || x == 9 || x == 23) return 1;
  if (x == 2) return 2;
  if (x == 3 || x == 8) return 3;
  if (x == 44) return 2;
  if (x == 51 || x == 52 || x == 53) return x == 52 ? 7 : 8;
  return 0;
}
