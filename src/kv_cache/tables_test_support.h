#pragma once
// For tests of classes that work on block tables: random KV groups, a pool, and the tables of a few
// sequences.
#include <list>
#include <random>

#include "base/check.h"
#include "kv_cache/block_tables.h"

namespace pagoda::testing {

// One to three groups with `size` tokens per row; the last one holds states if `states` is set.
inline std::vector<KvGroup> draw_token_groups(std::mt19937_64& rng, std::int32_t size, bool windows,
                                              bool states) {
  const auto below = [&](std::uint64_t n) { return static_cast<std::int32_t>(rng() % n); };
  std::vector<KvGroup> groups = {{.tokens_per_row = size, .pages_per_row = 1 + below(2)}};
  if (windows)
    groups.push_back({.kind = KvKind::window,
                      .window = 1 + below(12),
                      .tokens_per_row = size,
                      .pages_per_row = 1 + below(3)});
  if (states)
    groups.push_back({.kind = KvKind::state, .tokens_per_row = size, .pages_per_row = 1 + below(3)});
  return groups;
}

struct Tables {
  Tables(std::int32_t size, std::vector<KvGroup> groups, std::int32_t num_blocks)
      : geometry(size, std::move(groups)), pool(num_blocks), tables(geometry, pool) {}

  BlockTable& add() {
    BlockTable& table = all.emplace_back();
    table.groups.resize(geometry.groups().size());
    return table;
  }
  BlockTable& fork(const BlockTable& parent) {
    BlockTable& table = all.emplace_back(parent);
    tables.share_all(table);
    return table;
  }
  // The pool must have the pages.
  void grow(BlockTable& table, std::int32_t num_tokens, std::vector<BlockCopy>& copies) {
    tables.grow(
        table, num_tokens,
        [this](std::size_t group, std::int32_t, std::vector<BlockId>& pages) {
          CHECK(pool.allocate_row(geometry.groups()[group].pages_per_row, pages));
        },
        copies);
  }
  // Performs a step: makes space for the tokens, then marks them computed.
  void compute(BlockTable& table, std::int32_t num_tokens) {
    std::vector<BlockCopy> copies;
    grow(table, num_tokens, copies);
    tables.set_lengths(table, num_tokens, table.num_tokens);
    tables.give_back(table);
  }
  BlockTables::EachTable each() const {
    return [this](const auto& f) {
      for (const BlockTable& table : all)
        if (!table.swapped) f(table);
    };
  }

  KvGeometry geometry;
  BlockPool pool;
  BlockTables tables;
  std::list<BlockTable> all;  // stable addresses
};

}  // namespace pagoda::testing
