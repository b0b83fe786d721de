; Memory: globals are constants, and a pointer is `ptr` whatever it leads to.

%node = type { i32, [4 x i32], %node* }

@counter = global i32 0
@table = internal constant [3 x i32] [i32 1, i32 2, i32 3]
@head = external global %node

define i32 @bump() {
  %old = load i32, i32* @counter
  %new = add i32 %old, 1
  store i32 %new, i32* @counter
  ret i32 %old
}

define i32 @third(i64 %at) {
  %place = getelementptr inbounds [3 x i32], [3 x i32]* @table, i64 0, i64 %at
  %one = load i32, i32* %place
  %last = load i32, i32* getelementptr inbounds ([3 x i32], [3 x i32]* @table, i64 0, i64 2)
  %again = load i32, i32* getelementptr inbounds ([3 x i32], [3 x i32]* @table, i64 0, i64 2)
  %sum = add i32 %one, %last
  %all = add i32 %sum, %again
  ret i32 %all
}

define void @walk(%node* %from) {
entry:
  %slot = alloca %node*, align 8
  store %node* %from, %node** %slot, align 8
  br label %loop

loop:
  %at = load %node*, %node** %slot, align 8
  %is_end = icmp eq %node* %at, @head
  br i1 %is_end, label %end, label %body

body:
  %field = getelementptr inbounds %node, %node* %at, i32 0, i32 1, i64 2
  %value = load i32, i32* %field, align 4
  %more = add nsw i32 %value, 1
  store i32 %more, i32* %field, align 4
  %link = getelementptr inbounds %node, %node* %at, i32 0, i32 2
  %next = load %node*, %node** %link, align 8
  store %node* %next, %node** %slot, align 8
  br label %loop

end:
  ret void
}
