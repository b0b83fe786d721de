; Nothing but a declaration.

declare i32 @outside(i32)
