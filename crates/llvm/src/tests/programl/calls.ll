; Calls without pointers: recursion, declarations, functions that return nothing or never.

declare i32 @outside(i32, i32)

declare void @stop() noreturn

define i32 @factorial(i32 %n) {
entry:
  %is_small = icmp slt i32 %n, 2
  br i1 %is_small, label %small, label %large

small:
  ret i32 1

large:
  %less = sub i32 %n, 1
  %rest = call i32 @factorial(i32 %less)
  %product = mul i32 %n, %rest
  ret i32 %product
}

define i1 @even(i32 %n) {
  %is_zero = icmp eq i32 %n, 0
  br i1 %is_zero, label %yes, label %no

yes:
  ret i1 true

no:
  %less = sub i32 %n, 1
  %is_odd = call i1 @odd(i32 %less)
  ret i1 %is_odd
}

define i1 @odd(i32 %n) {
  %less = sub i32 %n, 1
  %is_even = tail call i1 @even(i32 %less)
  ret i1 %is_even
}

define void @main() {
  %a = call i32 @outside(i32 5, i32 5)
  %b = call i32 @outside(i32 %a, i32 %a)
  %c = call i32 @factorial(i32 %b)
  call void @nothing()
  call void @stop()
  unreachable
}

define void @nothing() {
  ret void
}

define internal i32 @nobody(i32 %x) {
  br label %again

again:
  br label %again
}
