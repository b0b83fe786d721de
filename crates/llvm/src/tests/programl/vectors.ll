; Vectors: the mask of a shufflevector is a constant, and may be that of another operand.

define <4 x i32> @mix(<4 x i32> %a, <4 x i32> %b, i32 %x) {
  %one = shufflevector <4 x i32> %a, <4 x i32> %b, <4 x i32> <i32 0, i32 4, i32 1, i32 5>
  %two = add <4 x i32> %one, <i32 0, i32 4, i32 1, i32 5>
  %three = insertelement <4 x i32> undef, i32 %x, i32 0
  %four = shufflevector <4 x i32> %three, <4 x i32> undef, <4 x i32> zeroinitializer
  %five = add <4 x i32> %four, zeroinitializer
  %six = mul <4 x i32> %two, %five
  ret <4 x i32> %six
}

define float @narrow(<8 x float> %a) {
  %half = shufflevector <8 x float> %a, <8 x float> undef, <2 x i32> <i32 undef, i32 7>
  %one = extractelement <2 x float> %half, i32 1
  %is_less = fcmp olt <8 x float> %a, zeroinitializer
  %kept = select <8 x i1> %is_less, <8 x float> %a, <8 x float> zeroinitializer
  %two = extractelement <8 x float> %kept, i64 1
  %sum = fadd float %one, %two
  ret float %sum
}
