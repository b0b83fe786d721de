; Structs and arrays as values: a struct is `struct`, an array is spelt out.

%pair = type { i32, i64 }
%packed = type <{ i8, %pair }>

define %pair @swap({ i64, i32 } %in) {
  %big = extractvalue { i64, i32 } %in, 0
  %small = extractvalue { i64, i32 } %in, 1
  %half = insertvalue %pair undef, i32 %small, 0
  %whole = insertvalue %pair %half, i64 %big, 1
  ret %pair %whole
}

define i8 @deep(%packed %p, [2 x %pair] %pairs, [3 x { i8, [2 x i16] }] %literal) {
  %first = extractvalue %packed %p, 0
  %inner = extractvalue %packed %p, 1
  %again = insertvalue [2 x %pair] %pairs, %pair %inner, 1
  %one = extractvalue [2 x %pair] %again, 0, 0
  %small = trunc i32 %one to i8
  %other = extractvalue [3 x { i8, [2 x i16] }] %literal, 2, 0
  %new = insertvalue [3 x { i8, [2 x i16] }] zeroinitializer, i8 %other, 1, 0
  %last = extractvalue [3 x { i8, [2 x i16] }] %new, 1, 0
  %a = add i8 %first, %small
  %b = add i8 %a, %last
  ret i8 %b
}
