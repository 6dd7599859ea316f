#include "base/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/strings.h"

namespace pagoda {
namespace {

// The build machine's linux/landlock.h may be older than the kernel that runs.
namespace landlock {
constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;  // the same on every architecture
constexpr std::uint32_t kVersion = 1;                                      // flag: return the ABI version
constexpr int kPathBeneath = 1;
struct Ruleset {
  std::uint64_t files = 0, network = 0;
};
struct [[gnu::packed]] PathBeneath {
  std::uint64_t allowed;
  std::int32_t parent;
};
constexpr std::uint64_t kWriteFile = 1 << 1, kReadFile = 1 << 2, kReadDir = 1 << 3, kRemoveDir = 1 << 4,
                        kRemoveFile = 1 << 5, kMakeDir = 1 << 7, kMakeRegular = 1 << 8, kMakeSocket = 1 << 9,
                        kMakeSymlink = 1 << 12, kRefer = 1 << 13, kTruncate = 1 << 14;
constexpr std::uint64_t kConnectTcp = 1 << 1;
constexpr std::uint64_t kRead = kReadFile | kReadDir;
constexpr std::uint64_t kWrite = kRead | kWriteFile | kRemoveDir | kRemoveFile | kMakeDir | kMakeRegular |
                                 kMakeSocket | kMakeSymlink | kRefer | kTruncate;
constexpr std::uint64_t kOfFiles = kReadFile | kWriteFile | kTruncate;  // the other rights apply to folders

// All rights that an ABI version can restrict, execution included.
std::uint64_t known(long abi) {
  if (abi >= 5) return (1 << 16) - 1;
  if (abi >= 3) return (1 << 15) - 1;
  return abi >= 2 ? (1 << 14) - 1 : (1 << 13) - 1;
}
}  // namespace landlock

Status failed(const char* what) {
  return internal_error(concat("sandbox: ", what, ": ", std::strerror(errno)));
}

// A path that does not exist needs no rule.
void allow(int ruleset, const std::string& path, std::uint64_t rights) {
  const int file = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (file < 0) return;
  struct stat info{};
  if (::fstat(file, &info) == 0) {
    const std::uint64_t allowed = S_ISDIR(info.st_mode) ? rights : rights & landlock::kOfFiles;
    const landlock::PathBeneath rule{.allowed = allowed, .parent = file};
    (void)::syscall(landlock::kAddRule, ruleset, landlock::kPathBeneath, &rule, 0);
  }
  ::close(file);
}

Status restrict_files(const SandboxRules& rules, Sandbox& out) {
  const long abi = ::syscall(landlock::kCreateRuleset, nullptr, 0, landlock::kVersion);
  if (abi < 1) return ok_status();  // the kernel is too old or lacks Landlock
  const std::uint64_t known = landlock::known(abi);
  landlock::Ruleset set{.files = known};
  constexpr long kNetworkAbi = 4;
  const bool network = abi >= kNetworkAbi && !rules.may_connect;
  if (network) set.network = landlock::kConnectTcp;
  const std::size_t size = abi >= kNetworkAbi ? sizeof set : sizeof set.files;
  const auto ruleset = static_cast<int>(::syscall(landlock::kCreateRuleset, &set, size, 0));
  if (ruleset < 0) return failed("Landlock's rules");
  for (const std::string& path : rules.readable) allow(ruleset, path, landlock::kRead & known);
  for (const std::string& path : rules.writable) allow(ruleset, path, landlock::kWrite & known);
  const long done = ::syscall(landlock::kRestrictSelf, ruleset, 0);
  const Status status = done == 0 ? ok_status() : failed("Landlock");
  ::close(ruleset);
  out.files = status.ok();
  out.connections = status.ok() && network;
  return status;
}

// These calls fail with EPERM: a library that tries one falls back.
constexpr std::uint32_t kForbidden[] = {
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_getfd,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_mount,
    SYS_umount2,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsmount,
    SYS_fsconfig,
    SYS_pivot_root,
    SYS_chroot,
    SYS_setns,
    SYS_unshare,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_open_by_handle_at,
    SYS_personality,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_sethostname,
    SYS_setdomainname,
#ifdef SYS_iopl
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
#endif
};

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;
#endif

Status restrict_calls(Sandbox& out) {
  if (kArchitecture == 0) return ok_status();
  constexpr std::uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
  std::vector<sock_filter> program;
  const auto load = [&](std::size_t offset) {
    program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)));
  };
  const auto answer = [&](std::uint32_t with) { program.push_back(BPF_STMT(BPF_RET | BPF_K, with)); };
  // System call numbers differ on other architectures.
  load(offsetof(seccomp_data, arch));
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0));
  answer(kRefuse);
  load(offsetof(seccomp_data, nr));
  constexpr std::uint32_t kX32 = 0x4000'0000;  // x32: a third set of call numbers on x86-64
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kX32, 0, 1));
  answer(kRefuse);
  for (const std::uint32_t number : kForbidden) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
    answer(kRefuse);
  }
  answer(SECCOMP_RET_ALLOW);
  const sock_fprog filter{.len = static_cast<unsigned short>(program.size()), .filter = program.data()};
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0) {
    out.calls = true;
    return ok_status();
  }
  return errno == ENOSYS || errno == EINVAL ? ok_status() : failed("seccomp");
}

}  // namespace

std::string Sandbox::describe() const {
  std::string out;
  const auto add = [&out](bool holds, const char* what) {
    if (holds) out += concat(out.empty() ? "" : ", ", what);
  };
  add(files, "only its own files (Landlock)");
  add(connections, "no outgoing connections (Landlock)");
  add(calls, "no other programs (seccomp)");
  return out.empty() ? "this kernel has none" : out;
}

Result<Sandbox> enter_sandbox(const SandboxRules& rules) {
  Sandbox out;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed("no new privileges");
  PAGODA_RETURN_IF_ERROR(restrict_files(rules, out));
  PAGODA_RETURN_IF_ERROR(restrict_calls(out));
  return out;
}

}  // namespace pagoda
