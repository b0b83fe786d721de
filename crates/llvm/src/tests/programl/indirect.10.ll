; Indirect calls have no edges. A function as an operand is no node, and inline assembly is none.

@operation = global i32 (i32)* @twice

declare i32 @apply(i32 (i32)*, i32)

define i32 @twice(i32 %x) {
  %y = shl i32 %x, 1
  ret i32 %y
}

define i32 @through(i32 (i32)* %function, i32 %x) {
  %a = call i32 %function(i32 %x)
  %known = load i32 (i32)*, i32 (i32)** @operation
  %b = call i32 %known(i32 %a)
  %c = call i32 @apply(i32 (i32)* @twice, i32 %b)
  %d = call i32 asm "bswap $0", "=r,0"(i32 %c)
  %e = call i32 @twice(i32 %d) [ "deopt"(i32 %a, i32 9) ]
  ret i32 %e
}

define i32 (i32)* @give() {
  ret i32 (i32)* @twice
}

define i32 @jump(i32 %which) {
entry:
  %is_left = icmp eq i32 %which, 0
  %to = select i1 %is_left, i8* blockaddress(@jump, %left), i8* blockaddress(@jump, %right)
  indirectbr i8* %to, [label %left, label %right]

left:
  ret i32 1

right:
  ret i32 2
}
