// Each in a process of its own, since there is no way back.
#include "base/sandbox.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

namespace pagoda {
namespace {

// The result of a child in the sandbox; -1: it did not end by itself.
int in_sandbox(const SandboxRules& rules, const std::function<int(const Sandbox&)>& function) {
  const pid_t child = ::fork();
  if (child == 0) {
    const Result<Sandbox> sandbox = enter_sandbox(rules);
    ::_exit(sandbox ? function(*sandbox) : 99);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// 0, or the error.
int error_of_open(const std::string& path, int flags) {
  const int file = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  if (file < 0) return errno;
  ::close(file);
  return 0;
}

class SandboxTest : public ::testing::Test {
 protected:
  SandboxTest() {
    std::string name = std::filesystem::temp_directory_path() / "pagoda-sandbox-XXXXXX";
    folder = ::mkdtemp(name.data());
    for (const char* part : {"readable", "writable", "neither"}) {
      std::filesystem::create_directory(folder / part);
      std::ofstream(folder / part / "file") << "text";
    }
    rules = {.readable = {folder / "readable", folder / "is not there"}, .writable = {folder / "writable"}};
  }
  ~SandboxTest() override { std::filesystem::remove_all(folder); }
  std::string file(const char* part) const { return folder / part / "file"; }

  // A kernel without it cannot show that it holds.
  Sandbox offered() {
    Sandbox out;
    const int bits =
        in_sandbox(rules, [](const Sandbox& s) { return s.files | s.connections << 1 | s.calls << 2; });
    out.files = (bits & 1) != 0;
    out.connections = (bits & 2) != 0;
    out.calls = (bits & 4) != 0;
    return out;
  }

  std::filesystem::path folder;
  SandboxRules rules;
};

TEST_F(SandboxTest, FilesThatAreNotNamedCannotBeOpened) {
  if (!offered().files) GTEST_SKIP() << "this kernel has no Landlock";
  EXPECT_EQ(in_sandbox(rules, [&](const Sandbox&) { return error_of_open(file("readable"), O_RDONLY); }), 0);
  EXPECT_EQ(in_sandbox(rules, [&](const Sandbox&) { return error_of_open(file("readable"), O_RDWR); }),
            EACCES);
  EXPECT_EQ(in_sandbox(rules, [&](const Sandbox&) { return error_of_open(file("neither"), O_RDONLY); }),
            EACCES);
  EXPECT_EQ(in_sandbox(rules, [&](const Sandbox&) { return error_of_open("/etc/passwd", O_RDONLY); }),
            EACCES);
  EXPECT_EQ(
      in_sandbox(rules, [&](const Sandbox&) { return error_of_open(folder / "new", O_CREAT | O_WRONLY); }),
      EACCES);
}

TEST_F(SandboxTest, WhereItMayWriteItMayMakeReplaceAndRemove) {
  const auto work = [&](const Sandbox&) {
    const std::string made = folder / "writable" / "made";
    if (const int error = error_of_open(made, O_CREAT | O_RDWR | O_TRUNC); error != 0) return error;
    if (::rename(made.c_str(), file("writable").c_str()) != 0) return errno;
    return ::unlink(file("writable").c_str()) == 0 ? 0 : errno;
  };
  EXPECT_EQ(in_sandbox(rules, work), 0);
}

TEST_F(SandboxTest, AThreadAndAChildAreInItToo) {
  if (!offered().files) GTEST_SKIP() << "this kernel has no Landlock";
  const auto by_thread = [&](const Sandbox&) {
    int error = 0;
    std::thread([&] { error = error_of_open(file("neither"), O_RDONLY); }).join();
    return error;
  };
  EXPECT_EQ(in_sandbox(rules, by_thread), EACCES);
}

TEST_F(SandboxTest, NothingIsExecutedAndNobodyTraced) {
  if (!offered().calls) GTEST_SKIP() << "this kernel has no seccomp";
  const auto execute = [](const Sandbox&) {
    char program[] = "/bin/true";
    char* const arguments[] = {program, nullptr};
    ::execv(program, arguments);
    return errno;
  };
  EXPECT_EQ(in_sandbox(rules, execute), EPERM);
  const auto trace = [](const Sandbox&) {
    return ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 ? 0 : errno;
  };
  EXPECT_EQ(in_sandbox(rules, trace), EPERM);
}

TEST_F(SandboxTest, ConnectionsCanBeAcceptedNotBegun) {
  if (!offered().connections) GTEST_SKIP() << "this kernel's Landlock knows no network";
  const auto listen_and_connect = [](const Sandbox&) {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof address;
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener, plain, size) != 0 || ::listen(listener, 1) != 0) return 1;
    if (::getsockname(listener, plain, &size) != 0) return 2;
    const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return ::connect(client, plain, size) == 0 ? 0 : errno;
  };
  EXPECT_EQ(in_sandbox(rules, listen_and_connect), EACCES);
  SandboxRules open = rules;
  open.may_connect = true;
  EXPECT_EQ(in_sandbox(open, listen_and_connect), 0);
}

TEST(SandboxText, SaysWhatHolds) {
  EXPECT_EQ(Sandbox().describe(), "this kernel has none");
  EXPECT_EQ((Sandbox{.files = true, .connections = true, .calls = true}).describe(),
            "only its own files (Landlock), no outgoing connections (Landlock), no other programs (seccomp)");
}

}  // namespace
}  // namespace pagoda
