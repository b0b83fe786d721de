; Intrinsics: calls and declarations like others. Metadata is no data, but has a position.

declare { i32, i1 } @llvm.sadd.with.overflow.i32(i32, i32)

declare i64 @llvm.ctpop.i64(i64)

declare void @llvm.trap()

declare i64 @llvm.read_register.i64(metadata)

define i32 @checked(i32 %a, i32 %b) {
  %both = call { i32, i1 } @llvm.sadd.with.overflow.i32(i32 %a, i32 %b)
  %is_over = extractvalue { i32, i1 } %both, 1
  br i1 %is_over, label %over, label %fine

over:
  call void @llvm.trap()
  unreachable

fine:
  %sum = extractvalue { i32, i1 } %both, 0
  ret i32 %sum
}

define i64 @bits() {
  %stack = call i64 @llvm.read_register.i64(metadata !0)
  %bits = call i64 @llvm.ctpop.i64(i64 %stack)
  ret i64 %bits
}

!0 = !{!"rsp"}
