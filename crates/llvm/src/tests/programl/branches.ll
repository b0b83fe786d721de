; Branches: a loop, phis with forward references, a branch whose two ways are one block.

define i32 @collatz(i32 %start) {
entry:
  %big = icmp sgt i32 %start, 1
  br i1 %big, label %loop, label %done

loop:
  %value = phi i32 [ %start, %entry ], [ %next, %latch ]
  %count = phi i32 [ 0, %entry ], [ %more, %latch ]
  %odd = and i32 %value, 1
  %is_odd = icmp eq i32 %odd, 1
  br i1 %is_odd, label %up, label %down

up:
  %tripled = mul nsw i32 %value, 3
  %raised = add nsw i32 %tripled, 1
  br label %latch

down:
  %halved = sdiv i32 %value, 2
  br label %latch

latch:
  %next = phi i32 [ %raised, %up ], [ %halved, %down ]
  %more = add i32 %count, 1
  %again = icmp ne i32 %next, 1
  br i1 %again, label %loop, label %done

done:
  %result = phi i32 [ 0, %entry ], [ %more, %latch ]
  ret i32 %result
}

define i32 @same_way(i1 %condition, i32 %unused) {
  br i1 %condition, label %next, label %next

next:
  ret i32 7
}
