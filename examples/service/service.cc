// Serves the compiler of stack_machine.h over the wire of CompilerGym (proto/compiler_gym_service.proto):
//   ./service [PORT]        a free port without PORT; prints the address

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <iostream>
#include <mutex>
#include <random>

#include "compiler_gym_service.grpc.pb.h"
#include "stack_machine.h"

namespace gym = compiler_gym;
using Clock = std::chrono::steady_clock;
using grpc::ServerContext, grpc::Status, grpc::StatusCode;

namespace {

// Programs that every client can name.
const std::map<std::string, std::string> shipped = {
    {"benchmark://stack-v0/polynomial",
     "push 2\nload x\nmul\npush 3\nadd\npush 4\nadd\nload x\nload x\nmul\npush 1\nmul\nadd\n"},
    {"benchmark://stack-v0/distance",
     "load a\npush 0\nadd\nload a\npush 0\nadd\nmul\nload b\nload b\nmul\nadd\npush 2\nmul\n"},
    {"benchmark://stack-v0/broken", "push 6\npush 3\ndiv\npush 5\npush 3\npush 3\nsub\ndiv\nadd\n"},
};

enum Observation { CODE, INSTRUCTION_COUNT, CYCLES, OPCODES, UPTIME };

class Service final : public gym::CompilerGymService::Service {
    Status GetVersion(ServerContext*, const gym::GetVersionRequest*, gym::GetVersionReply* reply) override {
        reply->set_service_version("1");
        reply->set_compiler_version("stack machine 1");
        return Status::OK;
    }

    Status GetSpaces(ServerContext*, const gym::GetSpacesRequest*, gym::GetSpacesReply* reply) override {
        auto* actions = reply->add_action_space_list();
        actions->set_name("passes-v0");
        for (const auto& pass : stack::passes)
            actions->mutable_space()->mutable_named_discrete()->add_name(pass.name);
        // In the order of Observation.
        const auto add = [&](const char* name, bool is_deterministic) {
            auto* space = reply->add_observation_space_list();
            space->set_name(name);
            space->set_deterministic(is_deterministic);
            return space->mutable_space();
        };
        add("Code", true)->mutable_string_value()->mutable_length_range()->set_min(0);
        add("InstructionCount", true)->mutable_int64_value()->set_min(0);
        add("Cycles", true)->mutable_double_value()->set_min(0);
        add("Opcodes", true)->mutable_int64_sequence()->mutable_length_range()->set_min(stack::opcodes.size());
        add("UpTime", false)->mutable_double_value()->set_min(0);
        return Status::OK;
    }

    Status AddBenchmark(ServerContext*, const gym::AddBenchmarkRequest* request, gym::AddBenchmarkReply*) override {
        const std::lock_guard lock(mutex_);
        for (const auto& benchmark : request->benchmark()) programs_[benchmark.uri()] = benchmark.program().contents();
        return Status::OK;
    }

    Status StartSession(ServerContext*, const gym::StartSessionRequest* request,
                        gym::StartSessionReply* reply) override {
        const std::lock_guard lock(mutex_);
        const auto& benchmark = request->benchmark();
        const auto program = programs_.find(benchmark.uri());
        if (program == programs_.end()) return {StatusCode::NOT_FOUND, "Benchmark not found: " + benchmark.uri()};
        if (request->action_space() != 0) return {StatusCode::INVALID_ARGUMENT, "there is one action space"};
        stack::Code code;
        try {
            code = stack::parse(program->second);
        } catch (const std::exception& error) {
            return {StatusCode::INVALID_ARGUMENT, error.what()};
        }
        const auto observed = observe(code, request->observation_space(), reply->mutable_observation());
        if (!observed.ok()) return observed;
        reply->set_session_id(next_);
        sessions_[next_++] = code;
        return Status::OK;
    }

    // ForkSession stays unimplemented: clients start a second session and repeat the actions.

    Status EndSession(ServerContext*, const gym::EndSessionRequest* request, gym::EndSessionReply* reply) override {
        const std::lock_guard lock(mutex_);
        sessions_.erase(request->session_id());
        reply->set_remaining_sessions(static_cast<int>(sessions_.size()));
        return Status::OK;
    }

    Status Step(ServerContext*, const gym::StepRequest* request, gym::StepReply* reply) override {
        const std::lock_guard lock(mutex_);
        const auto session = sessions_.find(request->session_id());
        if (session == sessions_.end())
            return {StatusCode::NOT_FOUND, "Session not found: " + std::to_string(request->session_id())};
        // A wrong request leaves the session as it was.
        auto code = session->second;
        for (const auto& action : request->action()) {
            const auto place = action.int64_value();
            if (action.value_case() != gym::Event::kInt64Value || place < 0 ||
                place >= static_cast<int64_t>(stack::passes.size()))
                return {StatusCode::INVALID_ARGUMENT, "there is no such action"};
            try {
                code = stack::passes[place](code);
            } catch (const std::exception& error) {
                sessions_.erase(session);
                return {StatusCode::INTERNAL, error.what()};
            }
        }
        const auto observed = observe(code, request->observation_space(), reply->mutable_observation());
        if (!observed.ok()) return observed;
        reply->set_action_had_no_effect(code == session->second);
        session->second = code;
        return Status::OK;
    }

    template <typename Spaces, typename Events>
    Status observe(const stack::Code& code, const Spaces& spaces, Events* events) const {
        for (const int space : spaces) {
            auto* event = events->Add();
            switch (space) {
                case CODE: event->set_string_value(stack::text(code)); break;
                case INSTRUCTION_COUNT: event->set_int64_value(static_cast<int64_t>(code.size())); break;
                case CYCLES: {
                    double cycles = 0;
                    for (const auto& [opcode, each] : stack::opcodes) cycles += each * stack::count(code, opcode);
                    event->set_double_value(cycles);
                    break;
                }
                case OPCODES: {
                    auto* counts = event->mutable_int64_tensor();
                    counts->add_shape(stack::opcodes.size());
                    for (const auto& [opcode, _] : stack::opcodes) counts->add_value(stack::count(code, opcode));
                    break;
                }
                case UPTIME:
                    event->set_double_value(std::chrono::duration<double>(Clock::now() - begun_).count());
                    break;
                default: return {StatusCode::INVALID_ARGUMENT, "there is no such observation space"};
            }
        }
        return Status::OK;
    }

    // Passes take microseconds, so one client at a time does no harm.
    std::mutex mutex_;
    std::map<std::string, std::string> programs_ = shipped;
    std::map<int64_t, stack::Code> sessions_;
    int64_t next_ = int64_t{std::random_device{}()} << 20;  // so that no number comes again later
    const Clock::time_point begun_ = Clock::now();
};

}  // namespace

int main(int argc, char** argv) {
    Service service;
    int port = 0;
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(-1);
    const std::string address = std::string("127.0.0.1:") + (argc > 1 ? argv[1] : "0");
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service);
    const auto server = builder.BuildAndStart();
    if (!server) {
        std::cerr << "nothing can listen at " << address << "\n";
        return 1;
    }
    std::cout << "serving sessions of a stack machine at grpc://127.0.0.1:" << port << std::endl;
    server->Wait();
}
