/// The ProGraML graph of a program, as ProGraML 0.3.2 defines it for LLVM 10.
///
/// Where LLVM 10 had operands that LLVM 22 keeps apart (the cases of a switch, the mask of a
/// shufflevector), the graph has LLVM 10's nodes and positions.
#include "program_graph.h"
#include "distinct_texts.h"
#include "module.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <array>
#include <tuple>

using namespace llvm;
using namespace steplake;

namespace {

enum NodeType : int8_t { InstructionNode, VariableNode, ConstantNode };
enum EdgeFlow : int8_t { ControlFlow, DataFlow, CallFlow };

/// The node `[external]`, which stands for everything outside of the module.
constexpr int32_t Root = 0;

struct Edge {
  EdgeFlow Flow;
  int32_t Position, Source, Target;

  /// Tools read one flow at a time, and equal or ascending numbers take few bytes.
  bool operator<(const Edge &Other) const {
    return std::tie(Flow, Source, Position, Target) <
           std::tie(Other.Flow, Other.Source, Other.Position, Other.Target);
  }
};

/// A use of a value as an operand.
template <typename T> struct UseOf {
  T Value;
  int32_t User, Position;
};

/// Prints a type as LLVM does. LLVM prints a struct without a name by its address, so its elements
/// stand for it here. They are not of its own type, since pointers do not say what they lead to.
void printType(const Type &T, raw_ostream &Out) {
  auto *Struct = dyn_cast<StructType>(&T);
  if (auto *Array = dyn_cast<ArrayType>(&T)) {
    Out << '[' << Array->getNumElements() << " x ";
    printType(*Array->getElementType(), Out);
    Out << ']';
  } else if (!Struct || Struct->hasName()) {
    T.print(Out, /*IsForDebug=*/false, /*NoDetails=*/true);
  } else {
    Out << (Struct->isPacked() ? "<" : "");
    StringRef Before = "{ ";
    for (const Type *Element : Struct->elements()) {
      Out << Before;
      printType(*Element, Out);
      Before = ", ";
    }
    Out << (Struct->getNumElements() ? " }" : "{}");
    Out << (Struct->isPacked() ? ">" : "");
  }
}

/// Gives each distinct text of a node a number.
class TextNumbers {
  DistinctTexts Texts;
  DenseMap<const Type *, int32_t> Types;
  std::array<int32_t, Instruction::OtherOpsEnd> Opcodes;

public:
  explicit TextNumbers(std::string &Out) : Texts(Out) { Opcodes.fill(-1); }

  int32_t text(StringRef Text) { return Texts.number(Text); }

  int32_t type(const Type &T) {
    auto [Entry, IsNew] = Types.try_emplace(&T);
    if (IsNew) {
      std::string Text = "struct";
      if (!T.isStructTy()) {
        Text.clear();
        raw_string_ostream Stream(Text);
        printType(T, Stream);
      }
      Entry->second = text(Text);
    }
    return Entry->second;
  }

  int32_t opcode(const Instruction &I) {
    int32_t &Number = Opcodes[I.getOpcode()];
    if (Number < 0)
      Number = text(I.getOpcodeName());
    return Number;
  }
};

/// The nodes at which control enters and leaves a function.
struct FunctionEnds {
  int32_t Entry;
  SmallVector<int32_t, 4> Exits;
};

class GraphBuilder {
  ProgramGraph &Graph;
  TextNumbers Texts;
  std::vector<Edge> Edges;
  /// The numbers of the function that is visited, and of the next block, over all functions.
  int32_t FunctionNumber = 0, BlockNumber = 0;
  MapVector<const Function *, FunctionEnds> Functions;
  /// The constants in the order of their first uses.
  MapVector<const Constant *, int32_t> Constants;
  std::vector<UseOf<const Constant *>> ConstantUses;
  std::vector<std::pair<int32_t, const Function *>> CallSites;
  // Of the function that is visited:
  DenseMap<const Instruction *, int32_t> Producers;
  std::vector<std::pair<const Instruction *, int32_t>> Variables;
  std::vector<UseOf<const Argument *>> ArgumentUses;
  DenseMap<const BasicBlock *, std::pair<int32_t, int32_t>> BlockEnds;

  int32_t node(NodeType Type, int32_t Text, int32_t Function, int32_t Block) {
    Graph.NodeTypes.push_back(Type);
    Graph.NodeTexts.push_back(Text);
    Graph.NodeFunctions.push_back(Function);
    Graph.NodeBlocks.push_back(Block);
    return static_cast<int32_t>(Graph.NodeTypes.size() - 1);
  }

  void edge(EdgeFlow Flow, int32_t Position, int32_t Source, int32_t Target) {
    Edges.push_back({Flow, Position, Source, Target});
  }

  /// Adds a use of a value. Functions, blocks, inline assembly and metadata are no data.
  void operand(const Value &V, int32_t User, int32_t Position) {
    if (auto *C = dyn_cast<Constant>(&V)) {
      if (!isa<Function>(C))
        ConstantUses.push_back({C, User, Position});
    } else if (auto *I = dyn_cast<Instruction>(&V)) {
      int32_t Variable = node(VariableNode, Texts.type(*I->getType()),
                              FunctionNumber, BlockNumber);
      edge(DataFlow, Position, Variable, User);
      Variables.push_back({I, Variable});
    } else if (auto *A = dyn_cast<Argument>(&V)) {
      ArgumentUses.push_back({A, User, Position});
    }
  }

  void operands(const Instruction &I, int32_t User) {
    if (auto *Switch = dyn_cast<SwitchInst>(&I)) {
      operand(*Switch->getCondition(), User, 0);
      int32_t Position = 2; // after the default block
      for (auto Case : Switch->cases()) {
        operand(*Case.getCaseValue(), User, Position);
        Position += 2;
      }
      return;
    }
    int32_t Position = 0;
    for (const Use &U : I.operands())
      operand(*U, User, Position++);
    if (auto *Shuffle = dyn_cast<ShuffleVectorInst>(&I))
      operand(*Shuffle->getShuffleMaskForBitcode(), User, Position);
  }

  void block(const BasicBlock &B) {
    int32_t First = -1, Last = -1;
    for (const Instruction &I : B) {
      int32_t Node =
          node(InstructionNode, Texts.opcode(I), FunctionNumber, BlockNumber);
      Producers[&I] = Node;
      if (First < 0)
        First = Node;
      else
        edge(ControlFlow, 0, Last, Node);
      Last = Node;
      auto *Call = dyn_cast<CallInst>(&I);
      if (const Function *Callee = Call ? Call->getCalledFunction() : nullptr)
        CallSites.push_back({Node, Callee});
      operands(I, Node);
    }
    BlockEnds[&B] = {First, Last};
    ++BlockNumber;
  }

  /// An argument is one node for all of its uses; the result of an instruction, one for each.
  void arguments(const Function &F) {
    std::vector<int32_t> Nodes(F.arg_size(), -1);
    for (const auto &Use : ArgumentUses)
      Nodes[Use.Value->getArgNo()] = 0;
    for (const Argument &A : F.args())
      if (Nodes[A.getArgNo()] == 0)
        Nodes[A.getArgNo()] = node(VariableNode, Texts.type(*A.getType()),
                                   FunctionNumber, BlockNumber);
    for (const auto &Use : ArgumentUses)
      edge(DataFlow, Use.Position, Nodes[Use.Value->getArgNo()], Use.User);
  }

  /// Adds the edges between the blocks that can be reached. Other blocks lead nowhere.
  void control(const Function &F, FunctionEnds &Ends) {
    SmallPtrSet<const BasicBlock *, 16> Reached{&F.getEntryBlock()};
    std::vector<const BasicBlock *> Queue{&F.getEntryBlock()};
    for (size_t Next = 0; Next < Queue.size(); ++Next) {
      int32_t Exit = BlockEnds[Queue[Next]].second, Position = 0;
      for (const BasicBlock *Successor : successors(Queue[Next])) {
        edge(ControlFlow, Position++, Exit, BlockEnds[Successor].first);
        if (Reached.insert(Successor).second)
          Queue.push_back(Successor);
      }
      if (Position == 0)
        Ends.Exits.push_back(Exit);
    }
  }

  void function(const Function &F) {
    FunctionEnds &Ends = Functions[&F];
    if (F.isDeclaration()) {
      Ends.Entry = node(InstructionNode, Texts.text("; undefined function"),
                        FunctionNumber, 0);
      Ends.Exits.push_back(Ends.Entry);
    } else {
      for (const BasicBlock &B : F)
        block(B);
      arguments(F);
      for (auto [Producer, Variable] : Variables)
        edge(DataFlow, 0, Producers[Producer], Variable);
      Ends.Entry = BlockEnds[&F.getEntryBlock()].first;
      control(F, Ends);
      Producers.clear();
      Variables.clear();
      ArgumentUses.clear();
      BlockEnds.clear();
    }
    ++FunctionNumber;
  }

  void call(int32_t Site, const FunctionEnds &Callee) {
    edge(CallFlow, 0, Site, Callee.Entry);
    for (int32_t Exit : Callee.Exits)
      edge(CallFlow, 0, Exit, Site);
  }

  void constants() {
    for (const auto &Use : ConstantUses) {
      auto [Entry, IsNew] = Constants.insert({Use.Value, 0});
      if (IsNew)
        Entry->second = node(ConstantNode, Texts.type(*Use.Value->getType()), 0,
                             BlockNumber);
      edge(DataFlow, Use.Position, Entry->second, Use.User);
    }
  }

  void writeEdges() {
    std::sort(Edges.begin(), Edges.end());
    for (const Edge &E : Edges) {
      Graph.EdgeFlows.push_back(E.Flow);
      Graph.EdgePositions.push_back(E.Position);
      Graph.EdgeSources.push_back(E.Source);
      Graph.EdgeTargets.push_back(E.Target);
    }
  }

public:
  GraphBuilder(const Module &M, ProgramGraph &Graph)
      : Graph(Graph), Texts(Graph.Texts) {
    node(InstructionNode, Texts.text("[external]"), 0, 0);
    for (const Function &F : M)
      function(F);
    for (const auto &[F, Ends] : Functions)
      call(Root, Ends);
    for (auto [Site, Callee] : CallSites)
      call(Site, Functions.find(Callee)->second);
    constants();
    writeEdges();
  }
};

} // namespace

extern "C" void
steplake_llvm_module_program_graph(SteplakeModule *Module,
                                   SteplakeProgramGraph *Out) {
  ProgramGraph &Graph = Module->Graph;
  Graph.clear();
  GraphBuilder(*Module->IR, Graph);
  *Out = {{Graph.Texts.data(), Graph.Texts.size()},
          Graph.NodeTypes.size(),
          Graph.NodeTypes.data(),
          Graph.NodeTexts.data(),
          Graph.NodeFunctions.data(),
          Graph.NodeBlocks.data(),
          Graph.EdgeFlows.size(),
          Graph.EdgeFlows.data(),
          Graph.EdgePositions.data(),
          Graph.EdgeSources.data(),
          Graph.EdgeTargets.data()};
}
