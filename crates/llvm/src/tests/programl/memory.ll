; Atomic memory, variable arguments, and a copy: the intrinsic's name tells the types.

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

declare i32 @printf(ptr, ...)

@text = private constant [4 x i8] c"%d\0A\00"

define i32 @atomics(ptr %p, i32 %x) {
  %old = atomicrmw add ptr %p, i32 %x seq_cst
  fence acquire
  %both = cmpxchg ptr %p, i32 %old, i32 0 acq_rel monotonic
  %seen = extractvalue { i32, i1 } %both, 0
  %now = load volatile i32, ptr %p
  store atomic i32 %now, ptr %p release, align 4
  %sum = add i32 %seen, %now
  ret i32 %sum
}

define void @copy(ptr %to, ptr %from, i64 %bytes) {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  %size = ptrtoint ptr %to to i64
  %room = alloca i8, i64 %size
  %back = inttoptr i64 %size to ptr
  call void @llvm.memcpy.p0.p0.i64(ptr %room, ptr %back, i64 8, i1 false)
  ret void
}

define i32 @say(i32 %x) {
  %format = getelementptr inbounds [4 x i8], ptr @text, i64 0, i64 1
  %n = call i32 (ptr, ...) @printf(ptr %format, i32 %x, double 2.000000e+00)
  ret i32 %n
}
