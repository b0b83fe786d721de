; Constants: one node each, whatever the number and the functions of their uses.

define double @floats(double %x, float %y) {
  %a = fadd double %x, 1.000000e+00
  %b = fmul double %a, 1.000000e+00
  %c = fadd float %y, 1.000000e+00
  %d = fpext float %c to double
  %e = fsub double %b, %d
  %f = fneg double %e
  ret double %f
}

define i64 @widths(i32 %x) {
  %a = add i32 %x, 1
  %b = add i32 1, %a
  %c = zext i32 %b to i64
  %d = add i64 %c, 1
  %e = select i1 true, i64 %d, i64 1
  %f = select i1 undef, i64 %e, i64 undef
  %g = xor i64 %f, -1
  ret i64 %g
}

define i32 @again(i32 %x) {
  %a = add i32 %x, 1
  %b = add i32 undef, 1
  %c = add i32 %a, %b
  %d = icmp eq i32 1, 1
  %e = freeze i1 %d
  br i1 %e, label %left, label %right

left:
  ret i32 1

right:
  ret i32 %c
}
