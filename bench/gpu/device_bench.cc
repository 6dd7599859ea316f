// Measures a device's memory, as JSON: bytes per second of a copy within it, operations per second of a large
// product of bfloat16 by its library (its peak, as far as that reaches it; null without the library), and
// microseconds of each call of its virtual memory. On the emulated device (for rehearsals) times are
// meaningless.
//   device_bench cuda|emulated [MIB]     copies this much (default 1024; emulated 4)
//   device_bench code                    the device code, and the library that it would use for products
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "bench_main.h"

namespace pagoda::device {
namespace {

constexpr int kRounds = 8, kPages = 64;

double seconds_since(const SteadyClock& clock, TimeNs start) { return to_seconds(clock.now() - start); }

// The best of several rounds of a copy.
Result<double> copied_bytes_per_s(Device& device, std::size_t bytes) {
  auto stream = device.create_stream();
  if (!stream) return stream.error();
  auto from = device.allocate(bytes, "from");
  if (!from) return from.error();
  auto to = device.allocate(bytes, "to");
  if (!to) return to.error();
  const SteadyClock clock;
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const TimeNs start = clock.now();
    PAGODA_RETURN_IF_ERROR(device.copy(*stream, *to, *from, bytes));
    PAGODA_RETURN_IF_ERROR(device.synchronize(*stream));
    best = std::max(best, static_cast<double>(bytes) / seconds_since(clock, start));
  }
  PAGODA_RETURN_IF_ERROR(device.free(*from));
  PAGODA_RETURN_IF_ERROR(device.free(*to));
  return best;
}

// The best of several rounds of a product of square matrices; a missing library is reported.
Result<double> product_flops(Device& device, std::int64_t size) {
  PAGODA_RETURN_IF_ERROR(device.open_products());
  auto stream = device.create_stream();
  if (!stream) return stream.error();
  std::byte* memory[3] = {};
  for (std::byte*& part : memory) {
    auto made = device.allocate(static_cast<std::size_t>(size * size * 4), "matrix");
    if (!made) return made.error();
    part = *made;
  }
  // Numbers of all magnitudes: products of zeros take less power and run faster.
  const std::size_t count = static_cast<std::size_t>(size * size);
  auto pinned = device.allocate_pinned(2 * count);
  if (!pinned) return pinned.error();
  auto* const numbers = reinterpret_cast<std::uint16_t*>(*pinned);
  for (std::size_t i = 0; i < count; ++i)  // 2^-3 to 2, of both signs
    numbers[i] = static_cast<std::uint16_t>(0x3e00 | (random_bits(1, 1, i) & 0x81ff));
  for (int i = 0; i < 2; ++i) PAGODA_RETURN_IF_ERROR(device.copy_in(*stream, memory[i], *pinned, 2 * count));
  PAGODA_RETURN_IF_ERROR(device.synchronize(*stream));
  PAGODA_RETURN_IF_ERROR(device.free_pinned(*pinned));
  const auto side = static_cast<std::int32_t>(size);
  const ProductArgs args = {.x = memory[0],
                            .weight = memory[1],
                            .y = reinterpret_cast<float*>(memory[2]),
                            .rows = side,
                            .n = side,
                            .k = side};
  const SteadyClock clock;
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const TimeNs start = clock.now();
    PAGODA_RETURN_IF_ERROR(device.multiply(*stream, args));
    PAGODA_RETURN_IF_ERROR(device.synchronize(*stream));
    const auto wide = static_cast<double>(size);
    best = std::max(best, 2 * wide * wide * wide / seconds_since(clock, start));
  }
  for (std::byte* const part : memory) PAGODA_RETURN_IF_ERROR(device.free(part));
  return best;
}

// Microseconds per call, for kPages calls in a row.
Status mapping_costs(Device& device) {
  const std::size_t page = device.granule();
  auto space = device.reserve(kPages * page);
  if (!space) return space.error();
  std::vector<PhysicalId> memory;
  const SteadyClock clock;
  const auto timed = [&](const char* name, const auto& call) -> Status {
    const TimeNs start = clock.now();
    for (int i = 0; i < kPages; ++i) PAGODA_RETURN_IF_ERROR(call(i));
    std::printf(", \"%s_us\": %.2f", name, 1e6 * seconds_since(clock, start) / kPages);
    return ok_status();
  };
  const auto at = [&](int i) { return *space + static_cast<std::size_t>(i) * page; };
  const auto which = [&](int i) { return memory[static_cast<std::size_t>(i)]; };
  PAGODA_RETURN_IF_ERROR(timed("create", [&](int) -> Status {
    auto made = device.create_physical(page);
    if (!made) return made.error();
    memory.push_back(*made);
    return ok_status();
  }));
  PAGODA_RETURN_IF_ERROR(timed("map", [&](int i) { return device.map(at(i), which(i)); }));
  PAGODA_RETURN_IF_ERROR(timed("set_access", [&](int i) { return device.set_access(at(i), page); }));
  PAGODA_RETURN_IF_ERROR(timed("unmap", [&](int i) { return device.unmap(at(i), page); }));
  PAGODA_RETURN_IF_ERROR(timed("destroy", [&](int i) { return device.destroy_physical(which(i)); }));
  return device.release(*space);
}

Status run(Device& device, std::size_t bytes, std::int64_t matrix) {
  auto copied = copied_bytes_per_s(device, bytes);
  if (!copied) return copied.error();
  std::printf("{\"device\": \"%s\", \"copy_bytes\": %zu, \"copy_bytes_per_s\": %.4g, \"granule\": %zu",
              device.describe().c_str(), bytes, *copied, device.granule());
  const auto flops = product_flops(device, matrix);
  if (flops)
    std::printf(", \"bf16_flops\": %.4g", *flops);
  else if (flops.error().code() == StatusCode::unavailable)
    std::printf(", \"bf16_flops\": null, \"no_library\": \"%s\"",
                std::string(flops.error().message()).c_str());
  else
    return flops.error();
  PAGODA_RETURN_IF_ERROR(mapping_costs(device));
  std::printf("}\n");
  return ok_status();
}

int main_of(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "code") {
    std::printf("%s\n%s\n", cuda_build().c_str(), cuda_products().c_str());
    return 0;
  }
  return bench_main(
      "device_bench", " [MIB]", false, argc, argv, [&](std::unique_ptr<Device> device, bool is_gpu) {
        const std::size_t mib = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : is_gpu ? 1024 : 4;
        return run(*device, mib << 20, is_gpu ? 8192 : 64);
      });
}

}  // namespace
}  // namespace pagoda::device

int main(int argc, char** argv) { return pagoda::device::main_of(argc, argv); }
