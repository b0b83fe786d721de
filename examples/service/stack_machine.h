// The compiler: an optimiser of straight-line code for a stack machine. It knows nothing of steplake.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace stack {

// What an instruction may be, with its cycles. `push` has a number, `load` the name of a variable.
inline const std::map<std::string, double> opcodes = {
    {"push", 1}, {"load", 2.5}, {"dup", 1}, {"add", 1}, {"sub", 1}, {"mul", 3}, {"div", 20}, {"neg", 1}};

struct Instruction {
    std::string opcode, operand;
    bool is(const std::string& name) const { return opcode == name; }
    bool operator==(const Instruction& other) const { return opcode == other.opcode && operand == other.operand; }
};

using Code = std::vector<Instruction>;

inline Instruction push(int64_t number) { return {"push", std::to_string(number)}; }
inline int64_t number(const Instruction& one) { return std::stoll(one.operand); }

// Reads one instruction a line. Code leaves one value on the stack, and never takes what is not there.
inline Code parse(const std::string& text) {
    Code code;
    std::istringstream lines(text);
    int depth = 0;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        Instruction one;
        if (!(words >> one.opcode)) continue;
        words >> one.operand;
        const bool has_operand = one.is("push") || one.is("load");
        if (!opcodes.count(one.opcode) || has_operand == one.operand.empty())
            throw std::invalid_argument("no instruction: " + line);
        if (one.is("push") && std::to_string(number(one)) != one.operand)
            throw std::invalid_argument("no number: " + line);
        const bool is_binary = one.is("add") || one.is("sub") || one.is("mul") || one.is("div");
        if (depth < (is_binary ? 2 : has_operand ? 0 : 1)) throw std::invalid_argument("nothing to take: " + line);
        depth += has_operand || one.is("dup") ? 1 : is_binary ? -1 : 0;
        code.push_back(one);
    }
    if (depth != 1) throw std::invalid_argument("code leaves " + std::to_string(depth) + " values, not 1");
    return code;
}

inline std::string text(const Code& code) {
    std::string text;
    for (const auto& one : code) text += one.opcode + (one.operand.empty() ? "" : " " + one.operand) + "\n";
    return text;
}

inline int64_t count(const Code& code, const std::string& opcode) {
    return std::count_if(code.begin(), code.end(), [&](const Instruction& one) { return one.is(opcode); });
}

// A pass replaces runs of instructions of some length for which it knows something better. It is a pure
// function of the code. Throws where it fails.
struct Pass {
    std::string name;
    size_t length;
    std::function<bool(const Instruction*, Code&)> rewrite;

    Code operator()(const Code& code) const {
        Code done;
        for (size_t at = 0; at < code.size();) {
            Code better;
            if (at + length <= code.size() && rewrite(&code[at], better)) {
                done.insert(done.end(), better.begin(), better.end());
                at += length;
            } else {
                done.push_back(code[at++]);
            }
        }
        return done;
    }
};

// Two's complement: the machine wraps around, and so does its compiler.
inline int64_t compute(const std::string& opcode, int64_t left, int64_t right) {
    const auto a = static_cast<uint64_t>(left), b = static_cast<uint64_t>(right);
    return static_cast<int64_t>(opcode == "add" ? a + b : opcode == "sub" ? a - b : a * b);
}

inline bool associates(const Instruction& one) { return one.is("add") || one.is("mul"); }

inline const std::vector<Pass> passes = {
    {"fold", 3, [](const Instruction* at, Code& better) {
         if (!at[0].is("push") || !at[1].is("push") || !(associates(at[2]) || at[2].is("sub"))) return false;
         better = {push(compute(at[2].opcode, number(at[0]), number(at[1])))};
         return true;
     }},
    // A mistake on purpose: it does not look at the divisor first.
    {"fold-quotients", 3, [](const Instruction* at, Code& better) {
         if (!at[0].is("push") || !at[1].is("push") || !at[2].is("div")) return false;
         if (number(at[1]) == 0) throw std::runtime_error("the compiler divided by zero");
         if (number(at[1]) == -1) return false;
         better = {push(number(at[0]) / number(at[1]))};
         return true;
     }},
    {"drop-identities", 2, [](const Instruction* at, Code&) {
         const bool is_sum = at[1].is("add") || at[1].is("sub"), is_product = at[1].is("mul") || at[1].is("div");
         return at[0].is("push") && ((is_sum && number(at[0]) == 0) || (is_product && number(at[0]) == 1));
     }},
    {"reassociate", 4, [](const Instruction* at, Code& better) {
         if (!at[0].is("push") || !at[2].is("push") || !associates(at[1]) || !(at[1] == at[3])) return false;
         better = {push(compute(at[1].opcode, number(at[0]), number(at[2]))), at[1]};
         return true;
     }},
    {"double-by-adding", 2, [](const Instruction* at, Code& better) {
         better = {{"dup", ""}, {"add", ""}};
         return at[0] == push(2) && at[1].is("mul");
     }},
    {"load-once", 2, [](const Instruction* at, Code& better) {
         better = {at[0], {"dup", ""}};
         return at[0].is("load") && at[0] == at[1];
     }},
};

}  // namespace stack
