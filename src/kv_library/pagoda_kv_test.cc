#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pagoda_kv.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "kv_library/dlpack.h"

// A library of a sanitized build needs its runtime, which programs of other builds and of C have not.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PAGODA_NEEDS_A_RUNTIME GTEST_SKIP() << "built with a sanitizer"
#endif
#endif
#ifndef PAGODA_NEEDS_A_RUNTIME
#define PAGODA_NEEDS_A_RUNTIME
#endif

namespace {

namespace dlpack = pagoda::dlpack;

pagoda_kv_config small() {
  pagoda_kv_config config = {};
  config.num_layers = 2;
  config.num_heads = 2;
  config.head_size = 32;
  config.element_size = 2;  // 128 bytes a token and layer
  config.max_batch = 4;
  config.max_context = 256;
  config.page_size = 4096;  // 32 tokens
  config.capacity_bytes = 12 * 4 * 4096;
  return config;
}

// The status of creating a small manager whose options are changed so.
pagoda_kv_status refused(auto change) {
  pagoda_kv_config config = small();
  change(config);
  pagoda_kv* kv = nullptr;
  const pagoda_kv_status status = pagoda_kv_init(&config, &kv);
  EXPECT_EQ(kv, nullptr);
  pagoda_kv_destroy(kv);
  return status;
}

struct Kv {
  explicit Kv(const pagoda_kv_config& config) {
    EXPECT_EQ(pagoda_kv_init(&config, &kv), PAGODA_KV_OK) << pagoda_kv_last_error();
  }
  ~Kv() { pagoda_kv_destroy(kv); }
  pagoda_kv_status step(std::vector<std::int32_t> lengths) {
    lengths.resize(16);
    return pagoda_kv_step(kv, lengths.data());
  }
  char* at(std::int32_t layer, std::int32_t reqid, std::int64_t position) {
    const pagoda_kv_layout layout = pagoda_kv_get_layout(kv);
    return static_cast<char*>(pagoda_kv_value(kv, layer)) + reqid * layout.slot_stride +
           position * layout.token_stride;
  }
  pagoda_kv* kv = nullptr;
};

TEST(PagodaKv, TheExamplesRun) {
  PAGODA_NEEDS_A_RUNTIME;
  std::istringstream programs(PAGODA_KV_EXAMPLES);
  int count = 0;
  for (std::string program; std::getline(programs, program, ':'); ++count) {
    const int status = std::system(("'" + program + "'").c_str());
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << program;
  }
  EXPECT_EQ(count, 2);
}

// The output of a command, which must succeed.
std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  std::string out;
  for (int c = 0; pipe != nullptr && (c = std::fgetc(pipe)) != EOF;) out += static_cast<char>(c);
  EXPECT_EQ(pipe == nullptr ? -1 : pclose(pipe), 0) << command;
  return out;
}

// Another engine's C++ runtime must not bind to the one inside.
TEST(PagodaKv, TheSharedLibraryShowsItsOwnSymbolsOnly) {
  std::istringstream symbols(output_of("'" PAGODA_NM "' -D --defined-only '" PAGODA_KV_SHARED "'"));
  int own = 0;
  for (std::string line; std::getline(symbols, line);) {
    const std::string name = line.substr(line.rfind(' ') + 1);
    if (name.starts_with("PAGODA_KV_1")) continue;  // the version itself
    EXPECT_TRUE(name.starts_with("pagoda_kv_")) << line;
    ++own;
  }
  EXPECT_GE(own, 10);
}

// A stranger's way: install, ask pkg-config, compile, run.
TEST(PagodaKv, TheInstalledLibraryIsFoundAndRuns) {
  PAGODA_NEEDS_A_RUNTIME;
  if (std::system("pkg-config --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no pkg-config";
  const std::string folder = ::testing::TempDir() + "pagoda_kv_installed_" + std::to_string(getpid());
  const std::string at = "'" + folder + "'";
  output_of("'" PAGODA_CMAKE "' --install '" PAGODA_BUILD "' --component pagoda_kv --prefix " + at);
  const std::string library =
      output_of("dirname \"$(find " + at + " -name libpagoda_kv.so.1)\" | tr -d '\\n'");
  const std::string flags = output_of("PKG_CONFIG_PATH='" + library +
                                      "/pkgconfig' pkg-config --cflags --libs pagoda_kv | tr -d '\\n'");
  output_of("'" PAGODA_CC "' '" PAGODA_EXAMPLE "' -o " + at + "/decode " + flags + " -lm");
  EXPECT_NE(output_of("LD_LIBRARY_PATH='" + library + "' " + at + "/decode"), "");
  output_of("rm -r " + at);
}

TEST(PagodaKv, LimitsAreRefusedByName) {
  EXPECT_EQ(refused([](auto& c) { c.num_heads = 0; }), PAGODA_KV_INVALID);
  EXPECT_EQ(refused([](auto& c) { c.capacity_bytes = 4096; }), PAGODA_KV_INVALID);
  EXPECT_EQ(refused([](auto& c) { c.num_heads = 1 << 30, c.head_size = 1 << 30; }), PAGODA_KV_INVALID);
  EXPECT_EQ(refused([](auto& c) { c.page_size = 5000; }), PAGODA_KV_PAGE_SIZE);
  EXPECT_EQ(refused([](auto& c) { c.num_heads = 3; }), PAGODA_KV_PAGE_SIZE);
  EXPECT_NE(std::string(pagoda_kv_last_error()).find("12288"), std::string::npos) << pagoda_kv_last_error();
  EXPECT_EQ(refused([](auto& c) { c.capacity_bytes = 2 * sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE); }),
            PAGODA_KV_NO_MEMORY);
  EXPECT_EQ(refused([](auto& c) { c.max_batch = 1 << 24, c.max_context = 1 << 20; }),
            PAGODA_KV_ADDRESS_SPACE);
  EXPECT_EQ(refused([](auto& c) { c.max_context = 1 << 24; }), PAGODA_KV_MAPPINGS);
  EXPECT_EQ(pagoda_kv_init(nullptr, nullptr), PAGODA_KV_INVALID);
}

TEST(PagodaKv, FullIsAnAnswerThatChangesNothing) {
  Kv it(small());
  const int a = pagoda_kv_alloc_reqid(it.kv, 100), b = pagoda_kv_alloc_reqid(it.kv, 100);
  ASSERT_EQ(a, 0);
  ASSERT_EQ(b, 1);
  ASSERT_EQ(it.step({256, 100}), PAGODA_KV_OK);  // 8 pages and 4: all
  EXPECT_EQ(pagoda_kv_get_stats(it.kv).free_pages, 0);
  std::memset(it.at(1, b, 99), 7, 128);
  EXPECT_EQ(it.step({256, 129}), PAGODA_KV_FULL);
  EXPECT_EQ(it.step({256, 128}), PAGODA_KV_OK);
  EXPECT_EQ(it.step({256, 257}), PAGODA_KV_INVALID);
  EXPECT_EQ(it.step({256, 1, 1}), PAGODA_KV_INVALID) << "slot 2 is not taken";
  EXPECT_EQ(pagoda_kv_free_reqid(it.kv, a), PAGODA_KV_OK);
  EXPECT_EQ(pagoda_kv_free_reqid(it.kv, a), PAGODA_KV_INVALID);
  EXPECT_EQ(it.step({0, 129}), PAGODA_KV_OK);
  EXPECT_EQ(*it.at(1, b, 99), 7);
}

dlpack::ManagedTensor* tensor_of(const Kv& it, std::int32_t layer, std::int32_t reqid) {
  const pagoda_kv_tensor_request request = {
      .layer = layer, .values = 1, .reqid = reqid, .type = PAGODA_KV_FLOAT, .versioned = 0, .stream = 1};
  void* tensor = nullptr;
  EXPECT_EQ(pagoda_kv_tensor(it.kv, &request, &tensor), PAGODA_KV_OK) << pagoda_kv_last_error();
  return static_cast<dlpack::ManagedTensor*>(tensor);
}

// Goal: what a tensor shows stays. Method: everything else goes first.
TEST(PagodaKvTensors, OutliveTheirSlotAndTheManager) {
  dlpack::ManagedTensor *slot = nullptr, *whole = nullptr;
  {
    Kv it(small());
    ASSERT_EQ(pagoda_kv_alloc_reqid(it.kv, 100), 0);
    ASSERT_EQ(it.step({100}), PAGODA_KV_OK);
    std::memset(it.at(1, 0, 99), 7, 128);
    slot = tensor_of(it, 1, 0);
    whole = tensor_of(it, 1, -1);
    ASSERT_EQ(slot->tensor.ndim, 3);
    EXPECT_EQ(slot->tensor.shape[0], 100);
    EXPECT_EQ(slot->tensor.strides[0], 64);
    ASSERT_EQ(whole->tensor.ndim, 4);
    EXPECT_EQ(whole->tensor.strides[0], 8 * 4096 / 2);
    EXPECT_EQ(pagoda_kv_free_reqid(it.kv, 0), PAGODA_KV_OK);
    EXPECT_EQ(pagoda_kv_free_reqid(it.kv, 0), PAGODA_KV_INVALID);
    EXPECT_EQ(pagoda_kv_get_stats(it.kv).free_pages, 8);
    for (const std::int32_t reqid : {1, 2, 3, -1}) EXPECT_EQ(pagoda_kv_alloc_reqid(it.kv, 256), reqid);
    EXPECT_EQ(pagoda_kv_last_status(), PAGODA_KV_FULL);
    EXPECT_EQ(it.step({0, 256}), PAGODA_KV_OK);
    EXPECT_EQ(it.step({0, 256, 1}), PAGODA_KV_FULL);
    EXPECT_STREQ(pagoda_kv_last_error(), "1 pages are needed, 0 are free; tensors keep 1 freed slot");
  }
  EXPECT_EQ(static_cast<char*>(slot->tensor.data)[99 * 128], 7);
  EXPECT_EQ(static_cast<char*>(whole->tensor.data)[99 * 128], 7);
  std::thread([&] { slot->deleter(slot); }).join();
  whole->deleter(whole);
}

// Goal: every slot keeps its bytes, whatever others do. Method: random calls against a plain array for each
// slot.
void run(std::uint64_t seed, const char* driver = nullptr) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 rng(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::int32_t>(rng() % n); };
  pagoda_kv_config config = small();
  config.slicing = below(2);
  if (config.slicing) config.page_size = 8192;
  config.map_ahead = below(2);
  config.eager_pages = below(3);
  config.deferred_reclaim = below(2);
  config.cuda_driver = driver;
  Kv it(config);
  const pagoda_kv_layout layout = pagoda_kv_get_layout(it.kv);
  struct Slot {
    bool taken = false;
    std::vector<char> bytes;  // one for each token, the same in both layers but for 1
  };
  std::vector<Slot> slots(4);
  const auto write = [&](std::int32_t slot, std::int32_t position) {
    const char byte = static_cast<char>(rng());
    slots[static_cast<std::size_t>(slot)].bytes.push_back(byte);
    for (const std::int32_t layer : {0, 1}) std::memset(it.at(layer, slot, position), byte + layer, 128);
  };
  for (int i = 0; i < 300; ++i) {
    const std::int32_t slot = below(4);
    Slot& chosen = slots[static_cast<std::size_t>(slot)];
    switch (below(5)) {
      case 0: {
        const std::int32_t got = pagoda_kv_alloc_reqid(it.kv, below(200));
        if (got >= 0) slots[static_cast<std::size_t>(got)] = {.taken = true, .bytes = {}};
        break;
      }
      case 1:
        EXPECT_EQ(pagoda_kv_free_reqid(it.kv, slot),
                  chosen.taken && below(2) >= 0 ? PAGODA_KV_OK : PAGODA_KV_INVALID);
        chosen = {};
        break;
      case 2: {
        if (!chosen.taken) break;
        const std::int32_t tokens = below(chosen.bytes.size() + 1);
        const std::int32_t child = pagoda_kv_fork(it.kv, slot, tokens);
        if (child < 0) break;
        slots[static_cast<std::size_t>(child)] = {
            .taken = true, .bytes = {chosen.bytes.begin(), chosen.bytes.begin() + tokens}};
        // Both go on in pages of their own: the parent may not write behind what it shares.
        break;
      }
      default: {
        std::vector<std::int32_t> lengths(4, 0);
        for (std::size_t s = 0; s < 4; ++s) {
          if (slots[s].taken && below(2) == 0)
            lengths[s] =
                std::min<std::int32_t>(256, static_cast<std::int32_t>(slots[s].bytes.size()) + 1 + below(40));
        }
        if (pagoda_kv_step(it.kv, lengths.data()) != PAGODA_KV_OK) break;
        for (std::int32_t s = 0; s < 4; ++s) {
          while (static_cast<std::int32_t>(slots[static_cast<std::size_t>(s)].bytes.size()) <
                 lengths[static_cast<std::size_t>(s)])
            write(s, static_cast<std::int32_t>(slots[static_cast<std::size_t>(s)].bytes.size()));
        }
      }
    }
    for (std::int32_t s = 0; s < 4; ++s) {
      const auto& bytes = slots[static_cast<std::size_t>(s)].bytes;
      for (std::size_t t = 0; t < bytes.size(); ++t) {
        for (const std::int32_t layer : {0, 1}) {
          ASSERT_EQ(it.at(layer, s, static_cast<std::int64_t>(t))[127], static_cast<char>(bytes[t] + layer))
              << "slot " << s << " token " << t;
        }
      }
    }
  }
  for (std::int32_t s = 0; s < 4; ++s) {
    if (slots[static_cast<std::size_t>(s)].taken) pagoda_kv_free_reqid(it.kv, s);
  }
  EXPECT_EQ(pagoda_kv_get_stats(it.kv).free_pages, layout.num_pages);
}

TEST(PagodaKvProperty, EverySlotKeepsItsBytes) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    run(seed);
    if (HasFatalFailure()) return;
  }
}

// A GPU's memory, by a driver that counts what is not given back.
class Driver {
 public:
  Driver() : opened_(dlopen(PAGODA_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL)) { EXPECT_NE(opened_, nullptr); }
  ~Driver() { dlclose(opened_); }
  int alive() const { return reinterpret_cast<int (*)()>(dlsym(opened_, "fake_alive"))(); }
  void fail(const char* call, std::int64_t after) const {
    reinterpret_cast<void (*)(const char*, std::int64_t)>(dlsym(opened_, "fake_fail"))(call, after);
  }

 private:
  void* opened_;
};

TEST(PagodaKvOnADevice, EverySlotKeepsItsBytes) {
  const Driver driver;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    run(seed, PAGODA_FAKE_DRIVER);
    if (HasFatalFailure()) return;
    ASSERT_EQ(driver.alive(), 0);
  }
}

TEST(PagodaKvOnADevice, WhatIsNotThereIsSaid) {
  const Driver driver;
  const auto refused = [](auto change) {
    return ::refused([&](auto& config) {
      config.cuda_driver = PAGODA_FAKE_DRIVER;
      change(config);
    });
  };
  EXPECT_EQ(refused([](auto& c) { c.cuda_driver = "libnone.so.1"; }), PAGODA_KV_NO_DEVICE);
  EXPECT_STREQ(pagoda_kv_last_error(), "there is no libnone.so.1 here");
  EXPECT_EQ(refused([](auto& c) { c.cuda_driver = "libm.so.6"; }), PAGODA_KV_NO_DEVICE);
  EXPECT_STREQ(pagoda_kv_last_error(), "libm.so.6 has no cuInit");
  EXPECT_EQ(refused([](auto& c) { c.cuda_device = 3; }), PAGODA_KV_NO_DEVICE);
  EXPECT_STREQ(pagoda_kv_last_error(), "cuDeviceGet: error 101 of the driver");
  // A refusal on the way gives back all that was taken, wherever it happens: 48 pieces of memory, two address
  // spaces.
  for (const char* const call : {"cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess"})
    for (const std::int64_t after : {0, 1, 20}) {
      driver.fail(call, after);
      if (call == std::string("cuMemAddressReserve") && after == 20) continue;
      EXPECT_EQ(refused([](auto&) {}), PAGODA_KV_NO_MEMORY) << call << after;
      EXPECT_EQ(driver.alive(), 0) << call << after;
    }
  driver.fail("", 0);
}

TEST(PagodaKvOnADevice, ADriverThatFailsLaterIsAnError) {
  const Driver driver;
  {
    pagoda_kv_config config = small();
    config.cuda_driver = PAGODA_FAKE_DRIVER;
    Kv it(config);
    ASSERT_EQ(pagoda_kv_alloc_reqid(it.kv, 40), 0);
    driver.fail("cuMemMap", 1);
    EXPECT_EQ(it.step({40}), PAGODA_KV_SYSTEM);
    EXPECT_STREQ(pagoda_kv_last_error(), "cuMemMap: error 2 of the driver");
  }
  EXPECT_EQ(driver.alive(), 0);
}

}  // namespace
