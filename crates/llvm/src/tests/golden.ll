; A program whose features can be counted by hand; tests/features.rs does.
target triple = "x86_64-pc-linux-gnu"

@table = global [4 x i32] zeroinitializer

define i32 @classify(i32 %n, <4 x i32> %v) personality ptr @personality {
entry:
  %slot = alloca i64
  store i64 0, ptr %slot
  %sum = add i32 %n, 1
  %lanes = add <4 x i32> %v, splat (i32 1)
  %lane = extractelement <4 x i32> %lanes, i64 2
  switch i32 %sum, label %other [
    i32 0, label %zero
    i32 1, label %one
    i32 7, label %one
  ]

zero:
  %count = call i32 @observe(i32 %lane)
  br label %done

one:
  invoke void @act() to label %done unwind label %caught

caught:
  %pad = landingpad { ptr, i32 } cleanup
  br label %done

other:
  %p = getelementptr [4 x i32], ptr @table, i64 0, i64 1
  %old = load i32, ptr %p
  %test = icmp eq i32 %old, 0
  br i1 %test, label %done, label %entry.again

entry.again:
  %frozen = freeze i32 %old
  br label %done

done:
  %out = phi i32 [ %count, %zero ], [ 1, %one ], [ 0, %caught ], [ %old, %other ], [ %frozen, %entry.again ]
  ret i32 %out
}

declare i32 @observe(i32)

declare void @act()

declare i32 @personality(...)
