// The flags of the machine: devices, threads, kernels, ranks and engines.
#include "cli/flags/cpu_list_flag.h"
#include "cli/flags/device_flags.h"
#include "cli/flags/engine_flag_table.h"
#include "cli/flags/flag_limits.h"
#include "cli/flags/flag_values.h"
#include "engine/poison_record.h"

namespace pagoda {

std::vector<Flag> machine_flag_table(EngineFlags& flags) {
  const auto store_cpu_list = [&flags](const std::string& value) -> Status {
    auto list = parse_cpu_list_flag(value);
    if (!list) return list.error();
    flags.cpu_list = *std::move(list);
    return ok_status();
  };
  const auto store_emulated = [&flags](const std::string& value) -> Status {
    auto device = parse_emulated_device(value);
    if (!device) return device.error();
    flags.emulated_device = *device;
    return ok_status();
  };
  const auto store_device = [&flags](const std::string& value) -> Status {
    auto device = parse_device(value == "none" ? "cpu" : value);  // "none" is llama-server's -dev none
    if (!device) return device.error();
    flags.device = device->name;
    flags.device_indices = device->indices;
    return ok_status();
  };
  return {
      {.name = "device",
       .value = flags::parsed("auto|cpu|cuda[:N,...]|emulated", store_device),
       .help = "device that computes the model; auto: cpu; emulated: CUDA kernels in software, slow",
       .details =
           "device that computes the model ([devices](devices.md)); `auto`: `cpu`. `cuda` needs a build with "
           "CUDA; `cuda:1` is the second of the GPUs that CUDA_VISIBLE_DEVICES leaves, `cuda:0,2` are those "
           "of two ranks of --tensor-parallel-size; `emulated` runs the same kernels in software, slowly, to "
           "find "
           "bugs in them. Also `-dev`, where llama-server's `none` is `cpu`",
       .default_text = "auto",
       .aliases = {"--dev"}},
      {.name = "emulated-device",
       .value = flags::parsed("NAME=N,...", store_emulated),
       .help = "settings of --device emulated: memory, granule, seed (stream order), lost-launch, "
               "lost-look, refused-allocation, nccl",
       .default_text = "memory=256MiB,granule=2MiB,seed=0"},
      {.name = "device-kernels",
       .value = flags::choice(flags.device_kernels, {"own", "fastest"}),
       .help =
           "kernels on a device: own (same bits in every batch), or fastest (cuBLASLt for many rows, other "
           "bits in another batch)",
       .details =
           "kernels on a device. `own`: a token has the same bits in every batch. `fastest` gives that up "
           "where NVIDIA's library is quicker: bfloat16 matrices with many rows are multiplied by "
           "cuBLASLt, if it is installed ([device kernels](device-kernels.md#the-fastest-kernels))"},
      {.name = "device-attention",
       .value = flags::choice(flags.device_attention, {"auto", "tiles", "warpgroups", "plain"}),
       .help = "attention kernels on a device: tiles, warpgroups or plain; auto: tiles where supported",
       .details = "attention kernels on a device: `tiles` of bfloat16 products; `warpgroups`: the same, and "
                  "prompts by `wgmma` on compute capability 9.0; or `plain`; `auto`: warpgroups, or tiles, "
                  "where keys and values are bfloat16 and the head size is a multiple of 8 up to 256; tiles "
                  "for int8 and multiples of 16 ([device kernels](device-kernels.md#attention))"},
      {.name = "device-products",
       .value = flags::choice(flags.device_products, {"auto", "tiles", "plain", "w8a8", "cublaslt", "own"}),
       .help = "matrix products on a device: tiles (bfloat16), plain, w8a8 (FP8 by FP8) or cublaslt; auto: "
               "tiles with --dtype bfloat16",
       .details =
           "matrix products on a device. `tiles`, `plain` and `w8a8` give a token the same bits in every "
           "batch; NVIDIA's `cublaslt` does not, and expands quantised weights first. `auto`, also called "
           "`own`: tiles with `--dtype bfloat16`, otherwise plain ([device "
           "kernels](device-kernels.md#matrix-products)). "
           "`w8a8`: the same, but FP8 folders that quantise activations are multiplied in FP8 by FP8, on "
           "compute capability 9.0. `pagoda doctor` shows which library is installed"},
      {.name = "device-graphs",
       .value = flags::choice(flags.device_graphs, {"auto", "check"}),
       .help =
           "decode steps on a device: replayed as graphs (auto), or also run eagerly and compared (check)",
       .details = "decode steps on a device are captured as graphs and replayed (`auto`). `check` also runs "
                  "each such step eagerly, from the same memory, and stops the engine if the results "
                  "differ in a byte: slow, to find bugs ([device kernels](device-kernels.md#graphs)). See "
                  "`--enforce-eager`"},
      {.name = "device-early-launch",
       .value = flags::choice(flags.device_early_launch, {"auto", "on", "off"}),
       .help = "start a kernel before the previous one has ended (compute capability 9.0 and up); "
               "auto: off",
       .details = "start a kernel before the previous one has ended, as far as its weights go "
                  "(programmatic dependent launch, compute capability 9.0 and up); answers do not depend on "
                  "it. `auto` is off ([device kernels](device-kernels.md#graphs))"},
      {.name = "enforce-eager",
       .value = flags::on_off(flags.enforce_eager),
       .help = "launch every step's kernels one by one, without graphs (on a device)"},
      {.name = "threads",
       .value = flags::int32(flags.threads, 0, kMaxThreads),
       .help = "number of compute threads; 0: one for each available core",
       .aliases = {"-t"}},
      {.name = "cpu-list",
       .value = flags::parsed("auto|none|LIST[|LIST...]", store_cpu_list),
       .help = "CPU cores to run on, such as 0-7,16-23, with one list per rank or engine; auto: one of them "
               "per NUMA node",
       .details =
           "CPU cores to run on, such as `0-7,16-23`; with several ranks or engines one list for each, "
           "separated by `|` and in quotes. Memory comes from the cores' NUMA node. `auto`: one rank or "
           "engine per node where there are several of both, otherwise no binding; `none`: no binding "
           "([ranks](tensor-parallelism.md#numa-nodes), [engines](data-parallelism.md#numa-nodes))",
       .default_text = "auto"},
      {.name = "backend",
       .value = flags::choice(flags.backend, {"cpu", "reference"}),
       .help = "kernels to use; reference is simple and slow"},
      {.name = "cpu-level",
       .value = flags::choice(flags.cpu_level, {"auto", "portable", "avx2", "avx512"}),
       .help = "instruction set to use",
       .details = "instruction set to use, at most the one that the CPU supports"},
      {.name = "disable-log-stats",
       .value = flags::on(flags.disable_log_stats),
       .help = "do not log throughput every 10 s"},
  };
}

std::vector<Flag> rank_flag_table(EngineFlags& flags) {
  return {
      {.name = "tensor-parallel-size",
       .value = flags::int32(flags.tensor_parallel_size, 1, kMaxRanks),
       .help = "number of tensor-parallel processes, each with a part of every layer",
       .details = "number of tensor-parallel processes, each with a part of every layer; under mpirun, the "
                  "number of processes it started ([tensor parallelism](tensor-parallelism.md)). Also `-tp`",
       .aliases = {"--tp"}},
      {.name = "data-parallel-size",
       .value = flags::int32(flags.data_parallel_size, 1, PoisonRecord::kMaxEngines),
       .help = "number of engines in this process; they divide the threads and the KV cache",
       .details = "number of engines in this process: they hold the weights once (on devices: on each) "
                  "and divide the threads, the KV cache, the swap space and the offloaded KV cache; "
                  "other limits hold for each. A request goes where the beginning of its prompt is "
                  "cached ([data parallelism](data-parallelism.md)). Also "
                  "`-dp`",
       .aliases = {"--dp", "--dp-size"}},
      {.name = "deterministic-allreduce",
       .value = flags::on_off(flags.deterministic_allreduce),
       .help = "sum the ranks' results in a fixed order; off: less data is sent, the last bits differ",
       .details = "gather the ranks' partial results and sum them in a fixed order, so that any number of "
                  "ranks gives the bits of one process; off: less data is sent, and the last bits differ"},
      {.name = "disable-custom-all-reduce",
       .value = flags::on_off(flags.disable_custom_all_reduce),
       .help = "ranks on GPUs exchange activations by NCCL instead of kernels that use peer memory",
       .details = "ranks on GPUs exchange activations by NCCL (libnccl.so.2, opened on demand) instead of "
                  "kernels that write to each other's memory ([on "
                  "devices](tensor-parallelism.md#on-devices)); bits change only with "
                  "`--no-deterministic-allreduce`. `pagoda doctor` shows which library is installed"},
      {.name = "rank-timeout",
       .value = flags::number(flags.rank_timeout_s, 0, kMaxSeconds),
       .help = "seconds without an answer after which a rank is lost and the engine ends; 0: never",
       .type = "S"},
  };
}

}  // namespace pagoda
