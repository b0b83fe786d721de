; Switches: cases that share a block or go to the default, one without cases, several exits.

define i32 @grade(i32 %points, i64 %other) {
entry:
  switch i32 %points, label %bad [
    i32 10, label %good
    i32 9, label %good
    i32 8, label %fair
    i32 0, label %bad
  ]

good:
  ret i32 1

fair:
  switch i64 %other, label %good [
  ]

bad:
  %negative = icmp slt i32 %points, 0
  br i1 %negative, label %never, label %poor

never:
  unreachable

poor:
  %low = sub i32 0, %points
  ret i32 %low
}

define i8 @table(i8 %code) {
  switch i8 %code, label %out [
    i8 -1, label %again
    i8 10, label %out
  ]

again:
  switch i8 %code, label %out [
    i8 10, label %out
  ]

out:
  %result = phi i8 [ %code, %0 ], [ %code, %0 ], [ 3, %again ], [ 3, %again ]
  ret i8 %result
}
