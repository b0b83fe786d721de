/// The C interface of the shim: what neither inkwell nor LLVM's own C API offers.
///
/// There are two handles. A *module* holds one program in a context of its own; an *engine* holds
/// all that is needed to run passes on modules. Neither may be used by two threads at once; both
/// may move between threads. Texts and bytes that are returned are borrowed: they are valid until
/// the next call on the same handle. Functions that return `int` return false on failure.
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
typedef struct SteplakeObject SteplakeObject;
typedef struct SteplakeVocabulary SteplakeVocabulary;
typedef struct SteplakeOption SteplakeOption;

/// Borrowed bytes.
typedef struct {
  const char *Data;
  size_t Size;
} SteplakeBytes;

/// The effect of a pass pipeline on a module.
typedef enum {
  /// The content is as it was.
  SteplakeUnchanged = 0,
  /// The content may have changed; call `steplake_llvm_module_settle`.
  SteplakeChanged = 1,
  /// The pipeline cannot be parsed, as the message says. Nothing ran.
  SteplakeBadPipeline = 2,
} SteplakeRunResult;

/// The sizes of the feature vectors.
enum {
  SteplakeInstCountSize = 70,
  SteplakeAutophaseSize = 56,
  SteplakeEmbeddingSize = 75
};

/// The ProGraML graph of a program: one list for each thing that its nodes and edges have.
typedef struct {
  /// The distinct texts of nodes, each ended by a zero byte.
  SteplakeBytes Texts;
  size_t Nodes;
  /// 0 for an instruction, 1 for a variable, 2 for a constant.
  const int8_t *NodeTypes;
  /// Places among the texts.
  const int32_t *NodeTexts;
  const int32_t *NodeFunctions;
  const int32_t *NodeBlocks;
  size_t Edges;
  /// 0 for control, 1 for data, 2 for calls.
  const int8_t *EdgeFlows;
  const int32_t *EdgePositions;
  /// Places among the nodes.
  const int32_t *EdgeSources;
  const int32_t *EdgeTargets;
} SteplakeProgramGraph;

/// A list of texts, as places among the distinct ones, each of which a zero byte ends.
typedef struct {
  SteplakeBytes Texts;
  const int32_t *Places;
} SteplakeTextList;

/// The tokens of a program's text: one list for each thing that tokens have.
typedef struct {
  size_t Tokens;
  /// The numbers of the kinds in LLVM's `lltok::Kind`, and their names there.
  const int32_t *Ids;
  SteplakeTextList Kinds;
  SteplakeTextList Categories;
  SteplakeTextList Values;
} SteplakeTokens;

/// Prepares a fresh context: registers the names that the bitcode of every state lists (metadata
/// kinds, bundle tags), and keeps diagnostics off the standard streams. `DiscardNames` drops the
/// names of local values; without it, textual IR can be read too.
void steplake_llvm_context_prepare(LLVMContextRef Context, int DiscardNames);

/// Creates an empty handle for a program in `Context`, which must outlive it.
SteplakeModule *steplake_llvm_module_create(LLVMContextRef Context);
void steplake_llvm_module_dispose(SteplakeModule *Module);

/// Reads a program: bitcode, or textual IR if the context keeps names. On failure the message says
/// why, and the handle stays empty. Call this at most once per handle.
int steplake_llvm_module_parse(SteplakeModule *Module, const char *Data,
                               size_t Size);

/// Verifies the program. On failure the message says what is broken.
int steplake_llvm_module_verify(SteplakeModule *Module);

/// Returns why the last call failed.
SteplakeBytes steplake_llvm_module_message(const SteplakeModule *Module);

/// Turns a program from outside into one of this environment: drops debug info, the name of the
/// compiler, and names that only tell where it was compiled, and sets `Machine`'s target if it names
/// none. Fails, with a message, if the program is for another target.
int steplake_llvm_module_adopt(SteplakeModule *Module,
                               LLVMTargetMachineRef Machine);

/// Brings what bitcode does not hold (the order of use-lists, the attributes of intrinsics, block
/// numbers) into a form that depends on the content alone, and takes the fingerprint against which
/// changes are found.
void steplake_llvm_module_canonicalise(SteplakeModule *Module);

/// Verifies what has changed since the last verification. On failure the message says what is
/// broken.
int steplake_llvm_module_verify_changes(SteplakeModule *Module);

/// Canonicalises what the last run changed.
void steplake_llvm_module_settle(SteplakeModule *Module);

/// Returns the text whose BLAKE3 hash names the state. Two canonical modules have equal texts
/// exactly when their bitcode is equal.
SteplakeBytes steplake_llvm_module_summary(SteplakeModule *Module);

/// Writes the module, as it is now, as bitcode without a symbol table for linkers, and with the
/// order of use-lists if `HasUseLists`.
SteplakeBytes steplake_llvm_module_write(SteplakeModule *Module, int HasUseLists);

/// The module as text.
SteplakeBytes steplake_llvm_module_print(SteplakeModule *Module, int HasUseLists);

/// Returns the number of instructions, as `Module::getInstructionCount` counts them. The module
/// must have been canonicalised.
uint64_t steplake_llvm_module_instructions(const SteplakeModule *Module);

/// Computes InstCount and Autophase. The module must be canonical.
void steplake_llvm_module_features(SteplakeModule *Module, int32_t *InstCount,
                                   int32_t *Autophase);

/// Builds the program's graph. The module must be verified. The lists are borrowed.
void steplake_llvm_module_program_graph(SteplakeModule *Module,
                                        SteplakeProgramGraph *Graph);

/// Prints the program, and splits the text into tokens by LLVM's own lexer. The lists are borrowed.
void steplake_llvm_module_tokens(SteplakeModule *Module,
                                 SteplakeTokens *Tokens);

/// The program's types, variables, and functions with a body, as LLVM 10 would have written them,
/// with typed pointers.
SteplakeBytes steplake_llvm_module_typed_text(SteplakeModule *Module);

/// Reads a vocabulary of IR2Vec: JSON as LLVM reads it, with entries of `SteplakeEmbeddingSize`
/// numbers. Returns null if it is none. A vocabulary does not change, so threads may share it.
SteplakeVocabulary *steplake_llvm_vocabulary_create(SteplakeBytes Json);

/// Computes the embedding of a program: the sum over its functions, of the symbolic kind.
void steplake_llvm_module_embedding(const SteplakeModule *Module,
                                    const SteplakeVocabulary *Vocabulary,
                                    double *Embedding);

/// Returns the names that the context has registered beyond those of every fresh context, one per
/// line: metadata kinds, bundle tags, synchronisation scopes. Passes that register more make equal
/// modules differ.
SteplakeBytes steplake_llvm_module_registered(SteplakeModule *Module);

/// Registers the target x86 with LLVM, without its disassembler, whose tables are 4 MB. Any thread
/// may call it, any number of times.
void steplake_llvm_initialize_x86(void);

/// Creates an engine. `Machine` must outlive it.
SteplakeEngine *steplake_llvm_engine_create(LLVMTargetMachineRef Machine);
void steplake_llvm_engine_dispose(SteplakeEngine *Engine);

/// Runs a pass pipeline on a canonical module. The message is the module's.
SteplakeRunResult steplake_llvm_engine_run(SteplakeEngine *Engine,
                                           SteplakeModule *Module,
                                           const char *Pipeline, size_t Size);

/// Runs a pass pipeline and nothing else: the floor against which steps are measured. On failure
/// the pipeline cannot be parsed, as the message says.
int steplake_llvm_engine_run_alone(SteplakeEngine *Engine,
                                   SteplakeModule *Module, const char *Pipeline,
                                   size_t Size);

/// Gives an option of LLVM's command line another value, for all passes of the
/// process that are made or run before `steplake_llvm_option_reset`. Returns
/// null, and changes nothing, if there is no such option or the value is none
/// of its.
SteplakeOption *steplake_llvm_option_set(SteplakeBytes Name,
                                         SteplakeBytes Value);

/// Gives an option its default again.
void steplake_llvm_option_reset(SteplakeOption *Option);

/// How machine code is made of a program, apart from the passes on its IR.
typedef enum {
  /// As `clang -O0` compiles IR: fast instruction selection and register allocation.
  SteplakeCodeGenerationO0 = 0,
  /// As `llc -O2` compiles functions with the attribute `optsize`.
  SteplakeCodeGenerationOs = 1,
  /// As `llc -O2` compiles functions with the attributes `optsize` and `minsize`.
  SteplakeCodeGenerationOz = 2,
  /// As `llc -O3` compiles functions as they are marked.
  SteplakeCodeGenerationO3 = 3,
} SteplakeCodeGeneration;

/// The sanitizer whose checks are in machine code.
typedef enum {
  SteplakeSanitizerNone = 0,
  SteplakeSanitizerAddress = 1,
  SteplakeSanitizerMemory = 2,
  SteplakeSanitizerThread = 3,
} SteplakeSanitizer;

/// Compiles a copy of a program, given as bitcode that LLVM wrote, to position-independent code: a
/// relocatable object, in the format of the program's target triple. The CPU is generic x86-64,
/// except for functions that name another one. If there is no such code, LLVM says why on the
/// standard error stream, and ends the process.
SteplakeObject *steplake_llvm_object_create(SteplakeBytes Bitcode,
                                            SteplakeCodeGeneration Generation,
                                            SteplakeSanitizer Sanitizer);
void steplake_llvm_object_dispose(SteplakeObject *Object);
SteplakeBytes steplake_llvm_object_bytes(const SteplakeObject *Object);

/// Returns what `llvm-size` calls `text`: the bytes of all sections that are loaded and cannot be
/// written, so code, constants and tables for unwinding.
uint64_t steplake_llvm_object_text_size(const SteplakeObject *Object);

#ifdef __cplusplus
}
#endif
