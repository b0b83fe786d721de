/// The C interface of the shim: what neither inkwell nor LLVM's own C API reaches.
///
/// Two handles. A *module* holds one program in a context of its own; an *engine* holds what it
/// takes to run passes over modules. Neither may be used by two threads at once; both may move
/// between threads. Texts and bytes that come back are borrowed: they are good until the next call
/// on the same handle.
#pragma once

#include "llvm-c/TargetMachine.h"
#include "llvm-c/Types.h"
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct SteplakeModule SteplakeModule;
typedef struct SteplakeEngine SteplakeEngine;

/// Borrowed bytes.
typedef struct {
  const char *Data;
  size_t Size;
} SteplakeBytes;

/// What a pass pipeline did to a module.
typedef enum {
  /// The module's content is as it was.
  SteplakeUnchanged = 0,
  /// The module's content may be another; `steplake_llvm_module_settle` is due.
  SteplakeChanged = 1,
  /// The pipeline's text is not one; the message says why. Nothing ran.
  SteplakeBadPipeline = 2,
} SteplakeRunResult;

/// Sizes of the feature vectors.
enum { SteplakeInstCountSize = 70, SteplakeAutophaseSize = 56 };

/// Prepares a fresh context: registers what the bitcode of every state lists (metadata kinds,
/// bundle tags), and keeps diagnostics off the standard streams. `DiscardNames` drops the names of
/// local values; textual IR can be read only without.
void steplake_llvm_context_prepare(LLVMContextRef Context, int DiscardNames);

/// An empty handle for a program in `Context`, which must outlive it.
SteplakeModule *steplake_llvm_module_create(LLVMContextRef Context);
void steplake_llvm_module_dispose(SteplakeModule *Module);

/// Reads a program: bitcode, or textual IR when the context keeps names. False: the message
/// says why, and the handle stays empty. At most once a handle.
int steplake_llvm_module_parse(SteplakeModule *Module, const char *Data,
                               size_t Size);

/// Verifies the program. False: the message says what is broken.
int steplake_llvm_module_verify(SteplakeModule *Module);

/// Why the last call failed.
SteplakeBytes steplake_llvm_module_message(const SteplakeModule *Module);

/// Makes a program that comes from outside one of this environment: without debug info and names
/// that only tell where it was compiled, for `Machine`'s target where it names none. False: it is
/// for another target; the message says so.
int steplake_llvm_module_adopt(SteplakeModule *Module,
                               LLVMTargetMachineRef Machine);

/// Brings what bitcode does not hold (the order of use-lists, the attributes of intrinsics, block
/// numbers) into a form that depends on the content alone, and takes the fingerprint that changes
/// are told by.
void steplake_llvm_module_canonicalise(SteplakeModule *Module);

/// Verifies what runs have changed since the last verification. False: the message says what is
/// broken.
int steplake_llvm_module_verify_changes(SteplakeModule *Module);

/// Canonicalises what the last run changed.
void steplake_llvm_module_settle(SteplakeModule *Module);

/// The text whose SHA-1 names the state: equal for two canonical modules exactly when their bitcode
/// is.
SteplakeBytes steplake_llvm_module_summary(SteplakeModule *Module);

/// Writes the module, as it is now, as plain bitcode: no use-list order, no symbol table for
/// linkers.
SteplakeBytes steplake_llvm_module_write(SteplakeModule *Module);

/// The module as text.
SteplakeBytes steplake_llvm_module_print(SteplakeModule *Module);

/// Instructions, as `Module::getInstructionCount` counts them. The module must have been
/// canonicalised.
uint64_t steplake_llvm_module_instructions(const SteplakeModule *Module);

/// InstCount and Autophase. The module must be canonical.
void steplake_llvm_module_features(SteplakeModule *Module, int32_t *InstCount,
                                   int32_t *Autophase);

/// The names that the context has registered beyond those of every fresh context, one a line:
/// metadata kinds, bundle tags, synchronisation scopes. Passes that register more make equal
/// modules differ.
SteplakeBytes steplake_llvm_module_registered(SteplakeModule *Module);

/// `Machine` must outlive the engine.
SteplakeEngine *steplake_llvm_engine_create(LLVMTargetMachineRef Machine);
void steplake_llvm_engine_dispose(SteplakeEngine *Engine);

/// Runs a pass pipeline over a canonical module. The message is the module's.
SteplakeRunResult steplake_llvm_engine_run(SteplakeEngine *Engine,
                                           SteplakeModule *Module,
                                           const char *Pipeline, size_t Size);

/// Runs a pass pipeline and nothing else: the floor that steps are measured against. False: the
/// pipeline's text is not one; the message says why.
int steplake_llvm_engine_run_alone(SteplakeEngine *Engine,
                                   SteplakeModule *Module, const char *Pipeline,
                                   size_t Size);

#ifdef __cplusplus
}
#endif
