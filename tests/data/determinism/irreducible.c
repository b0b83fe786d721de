// Loops with several entries, and jumps by address.
int entries(int n, int m) {
  int s = 0;
  if (n & 1) goto inner;
  if (n & 2) goto middle;
outer:
  s += n;
  if (s > 500) return s;
middle:
  s += m * 3;
  if (s & 8) goto outer;
inner:
  s += 7;
  if (s < 200) goto middle;
  if (s < 300) goto outer;
  return s;
}
int twice(int a, int b) {
  int i = 0, s = 0;
  switch (a & 3) {
  case 0: goto zero;
  case 1: goto one;
  case 2: goto two;
  default: goto three;
  }
zero: s += b; i++;
one: s ^= a; i += 2;
two: if (i > 40) return s; s += i;
three: if (s & 1) goto zero; if (s & 2) goto one; i += 5; if (i < 90) goto two;
  return s + i;
}
int machine(const unsigned char *code, int *stack) {
  static void *const labels[] = {&&push, &&add, &&mul, &&swap, &&jump, &&halt, &&dup, &&drop};
  int sp = 0, pc = 0;
  goto *labels[code[pc++] & 7];
push: stack[sp++] = code[pc++]; goto *labels[code[pc++] & 7];
add: sp--; stack[sp - 1] += stack[sp]; goto *labels[code[pc++] & 7];
mul: sp--; stack[sp - 1] *= stack[sp]; goto *labels[code[pc++] & 7];
swap: { int t = stack[sp - 1]; stack[sp - 1] = stack[sp - 2]; stack[sp - 2] = t; }
  goto *labels[code[pc++] & 7];
jump: if (stack[--sp]) pc = code[pc]; else pc++; goto *labels[code[pc++] & 7];
dup: stack[sp] = stack[sp - 1]; sp++; goto *labels[code[pc++] & 7];
drop: sp--; goto *labels[code[pc++] & 7];
halt: return stack[sp - 1];
}
