; Invokes are no call sites. Their two successors, landing pads and cleanups.

@info = external constant ptr

declare i32 @might_throw(i32)

declare i32 @personality(...)

declare void @clean(ptr)

define i32 @guarded(i32 %x) personality ptr @personality {
entry:
  %a = invoke i32 @might_throw(i32 %x)
          to label %fine unwind label %caught

fine:
  %b = call i32 @might_throw(i32 %a)
  ret i32 %b

caught:
  %exception = landingpad { ptr, i32 }
          cleanup
          catch ptr @info
  %pointer = extractvalue { ptr, i32 } %exception, 0
  call void @clean(ptr %pointer)
  %kind = extractvalue { ptr, i32 } %exception, 1
  %is_ours = icmp eq i32 %kind, 0
  br i1 %is_ours, label %ours, label %theirs

ours:
  ret i32 -1

theirs:
  resume { ptr, i32 } %exception
}
