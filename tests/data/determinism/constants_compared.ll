; The condition compares two constants, and is used where it cannot hold.
define i32 @main() {
entry:
  %never = icmp eq i32 1, 0
  br i1 %never, label %there, label %done

there:
  br i1 %never, label %again, label %done

again:
  br label %done

done:
  %result = phi i32 [ 0, %entry ], [ 1, %there ], [ 2, %again ]
  ret i32 %result
}
