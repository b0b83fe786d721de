; Blocks that the entry does not reach: they have no edges to other blocks, and are no exits.

declare i32 @outside(i32)

define i32 @ends(i32 %x) {
entry:
  %y = add i32 %x, 1
  ret i32 %y

lost:
  %z = call i32 @outside(i32 %x)
  br label %also_lost

also_lost:
  %w = phi i32 [ %z, %lost ], [ 4, %circle ]
  br i1 true, label %circle, label %out

circle:
  %v = add i32 %w, %z
  br label %also_lost

out:
  ret i32 %w
}

define i32 @joins(i32 %x) {
entry:
  br label %join

lost:
  %y = mul i32 %x, %x
  br label %join

join:
  %z = phi i32 [ %x, %entry ], [ %y, %lost ]
  ret i32 %z
}
