; One of everything that the fingerprint looks at.
source_filename = "everything"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

%pair = type { i32, i32 }
%by_value = type { i64, i64, i8 }
%empty = type {}
%unknown = type opaque

$variable = comdat any

@variable = global i32 7, comdat, align 4
@another = global i32 8, align 4
@table = global [2 x ptr] [ptr @first, ptr @resolve1]
@place = global ptr getelementptr (i8, ptr @another, i64 4)
@alias = alias i32, ptr @variable
@chosen = ifunc void (), ptr @resolve1
@0 = private global i32 1
@1 = private global i32 2
@labels = global [2 x ptr] [ptr blockaddress(@jumps, %a), ptr blockaddress(@jumps, %b)]
@mentioned = global i32 0
@gone = global i32 0
@holes = global { ptr, i32, ptr } { ptr @gone, i32 1, ptr @gone }
@leaves = global [4 x i32] zeroinitializer
@leaf = global ptr getelementptr (i8, ptr @leaves, i64 4)
@wrapped = global i32 0
@within = global i32 0
@beside = global ptr getelementptr (i8, ptr @within, i64 4)
@row = global [1 x ptr] [ptr @in_row]
@in_row = global i32 0
@of_unknown = external global %unknown

declare i1 @llvm.type.test(ptr, metadata)

define ptr @resolve1() {
  ret ptr null
}

define ptr @resolve2() {
  ret ptr null
}

define i32 @everything(i32 %a, ptr %p, double %x, <4 x i32> %v) section "here" gc "statepoint-example" prefix i32 1 prologue i32 2 personality ptr @personality !dbg !3 {
entry:
  %slot = alloca i32, align 4, !dbg !7
    #dbg_value(i32 %a, !5, !DIExpression(), !7)
  store i32 %a, ptr %slot, align 4, !marker !8
  %loaded = load i32, ptr %slot, align 4
  %shifted = lshr i32 %loaded, 2
  %sum = add i32 %a, 1
  %wide = zext i32 %sum to i64
  %address = getelementptr i32, ptr %p, i64 %wide
  %field = getelementptr [2 x %pair], ptr %p, i64 0, i64 1, i32 1
  %old = atomicrmw add ptr %address, i32 1 seq_cst
  %acquired = load atomic i32, ptr %address acquire, align 4
  store atomic i32 %acquired, ptr %address release, align 4
  %pair = cmpxchg ptr %address, i32 %old, i32 %sum seq_cst monotonic
  fence seq_cst
  %shuffled = shufflevector <4 x i32> %v, <4 x i32> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %element = extractelement <4 x i32> %shuffled, i32 0
  call void @callee(i32 %shifted) [ "bundle"(i32 %element) ]
  %big = icmp sgt i32 %sum, 10
  br i1 %big, label %many, label %few

many:
  switch i32 %a, label %join [
    i32 1, label %few
    i32 2, label %raise
  ]

few:
  %less = fcmp ogt double %x, 1.000000e+00
  br label %join

raise:
  invoke void @callee(i32 0) to label %join unwind label %handler

handler:
  %caught = landingpad { ptr, i32 } catch ptr null
  br label %join

join:
  %result = phi i32 [ 1, %many ], [ 2, %few ], [ 3, %raise ], [ 4, %handler ]
  ret i32 %result
}

define void @jumps(ptr %where) {
  indirectbr ptr %where, [label %a, label %b]
a:
  ret void
b:
  unreachable
}

define ptr @label() {
  ret ptr blockaddress(@jumps, %b)
}

define ptr @nameless() {
  ret ptr @1
}

define i1 @wraps(ptr %p) {
  %is = call i1 @llvm.type.test(ptr %p, metadata ptr @wrapped)
  %loaded = load i32, ptr %p, align 4, !deep !10
  %again = load i32, ptr %p, align 4, !mentions !12
  %more = load i32, ptr %p, align 4, !mentions !13
  %last = load i32, ptr %p, align 4, !mentions !14
  %none = load %empty, ptr %p, align 1
  ret i1 %is
}

define ptr @leaf_too(ptr %p) {
  call void @takes(ptr byval(%by_value) %p)
  ret ptr getelementptr (i8, ptr @leaves, i64 4)
}

declare void @takes(ptr)

declare i32 @personality(...)

declare void @callee(i32)

declare void @unused()

declare void @first()

declare void @second()

!llvm.module.flags = !{!0}
!llvm.dbg.cu = !{!1}
!named = !{!0}

!0 = !{i32 2, !"Debug Info Version", i32 3}
!1 = distinct !DICompileUnit(language: DW_LANG_C99, file: !2, emissionKind: FullDebug)
!2 = !DIFile(filename: "everything.c", directory: "/")
!3 = distinct !DISubprogram(name: "everything", scope: !2, file: !2, line: 1, type: !4, spFlags: DISPFlagDefinition, unit: !1)
!4 = !DISubroutineType(types: !9)
!5 = !DILocalVariable(name: "a", scope: !3, file: !2, line: 1, type: !6)
!6 = !DIBasicType(name: "int", size: 32, encoding: DW_ATE_signed)
!7 = !DILocation(line: 1, column: 1, scope: !3)
!8 = distinct !{!"old"}
!9 = !{}
!10 = !{!11}
!11 = distinct !{!"deep"}
!12 = !{ptr @mentioned}
!13 = !{ptr getelementptr (i8, ptr @within, i64 4)}
!14 = !{[1 x ptr] [ptr @in_row]}
