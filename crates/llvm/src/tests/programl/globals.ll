; Memory: globals are constants, and a pointer is `ptr` whatever it leads to.

%node = type { i32, [4 x i32], ptr }

@counter = global i32 0
@table = internal constant [3 x i32] [i32 1, i32 2, i32 3]
@head = external global %node

define i32 @bump() {
  %old = load i32, ptr @counter
  %new = add i32 %old, 1
  store i32 %new, ptr @counter
  ret i32 %old
}

define i32 @third(i64 %at) {
  %place = getelementptr inbounds [3 x i32], ptr @table, i64 0, i64 %at
  %one = load i32, ptr %place
  %last = load i32, ptr getelementptr inbounds ([3 x i32], ptr @table, i64 0, i64 2)
  %again = load i32, ptr getelementptr inbounds ([3 x i32], ptr @table, i64 0, i64 2)
  %sum = add i32 %one, %last
  %all = add i32 %sum, %again
  ret i32 %all
}

define void @walk(ptr %from) {
entry:
  %slot = alloca ptr, align 8
  store ptr %from, ptr %slot, align 8
  br label %loop

loop:
  %at = load ptr, ptr %slot, align 8
  %is_end = icmp eq ptr %at, @head
  br i1 %is_end, label %end, label %body

body:
  %field = getelementptr inbounds %node, ptr %at, i32 0, i32 1, i64 2
  %value = load i32, ptr %field, align 4
  %more = add nsw i32 %value, 1
  store i32 %more, ptr %field, align 4
  %link = getelementptr inbounds %node, ptr %at, i32 0, i32 2
  %next = load ptr, ptr %link, align 8
  store ptr %next, ptr %slot, align 8
  br label %loop

end:
  ret void
}
