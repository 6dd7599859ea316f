#include "kv_cache/block_tables.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace pagoda {

KvTable BlockTables::pages_of(const BlockTable& table, std::size_t group) const {
  const GroupRows& rows = table.groups[group];
  return {
      .blocks = std::span(rows.pages).subspan(as_size(rows.first) * as_size(groups()[group].pages_per_row)),
      .first_row = rows.first};
}

GroupRows BlockTables::rows_from(std::size_t group, std::int32_t first) const {
  GroupRows rows{.pages = {}, .first = first, .end = first};
  rows.pages.resize(as_size(first) * as_size(groups()[group].pages_per_row), kNoPage);
  return rows;
}

// A state's only row is written by every following token.
std::int32_t BlockTables::next_row(const BlockTable& table, std::size_t group) const {
  return groups()[group].is_state() ? 0 : table.num_computed / geometry_.block_size();
}

bool BlockTables::must_copy(const BlockTable& table, std::size_t group, std::int32_t num_tokens) const {
  const std::int32_t next = next_row(table, group);
  if (num_tokens <= table.num_computed || next >= table.groups[group].end) return false;
  const BlockId at = row(table, group, next);
  return pool_.ref_count(at) > 1 || pool_.is_published(at);
}

std::int64_t BlockTables::pages_to_grow(const BlockTable& table, std::size_t group,
                                        std::int32_t num_tokens) const {
  const std::int64_t wanted = groups()[group].rows_for(num_tokens);
  const std::int64_t rows = std::max<std::int64_t>(0, wanted - table.groups[group].end) +
                            (must_copy(table, group, num_tokens) ? 1 : 0);
  return rows * groups()[group].pages_per_row;
}

std::int64_t BlockTables::pages_to_grow(const BlockTable& table, std::int32_t num_tokens) const {
  std::int64_t pages = 0;
  for (std::size_t group = 0; group < groups().size(); ++group)
    pages += pages_to_grow(table, group, num_tokens);
  return pages;
}

// Only the last row of a fork can be both shared and unfinished. `copies` is null if the row is still empty.
void BlockTables::copy_next_row(BlockTable& table, std::size_t group, const NewRow& new_row,
                                std::vector<BlockCopy>* copies) {
  GroupRows& rows = table.groups[group];
  const std::int32_t next = next_row(table, group);
  CHECK(next + 1 == rows.end);
  const std::size_t begin = as_size(next) * as_size(groups()[group].pages_per_row);
  const BlockId old = row(table, group, next);
  GroupRows fresh = rows;
  fresh.pages.resize(begin);
  fresh.end = next;
  new_row(group, fresh.end++, fresh.pages);
  for (std::size_t i = begin; copies != nullptr && i < rows.pages.size(); ++i)
    copies->push_back({.from = rows.pages[i], .to = fresh.pages[i]});
  leave(table, group, next);
  pool_.release_one(old);
  rows = std::move(fresh);
  hold(table, group, next);
}

bool BlockTables::grow(BlockTable& table, std::int32_t num_tokens, const NewRow& new_row,
                       std::vector<BlockCopy>& copies) {
  bool copied = false;
  for (std::size_t group = 0; group < groups().size(); ++group) {
    GroupRows& rows = table.groups[group];
    if (must_copy(table, group, num_tokens)) {
      const bool begun = groups()[group].is_state() ? table.num_computed > 0
                                                    : table.num_computed % geometry_.block_size() != 0;
      copy_next_row(table, group, new_row, begun ? &copies : nullptr);
      copied |= begun;
    }
    while (rows.end < rows_for(group, num_tokens)) {
      new_row(group, rows.end, rows.pages);
      hold(table, group, rows.end++);
    }
  }
  set_lengths(table, table.num_computed, std::max(table.num_tokens, num_tokens));
  table.more.resize(groups().empty() ? 0 : groups().size() - 1);
  for (std::size_t group = 1; group < groups().size(); ++group)
    table.more[group - 1] = pages_of(table, group);
  return copied;
}

void BlockTables::shrink(BlockTable& table, std::int32_t num_tokens) {
  num_tokens = std::min(table.num_tokens, num_tokens);
  for (std::size_t group = 0; group < groups().size(); ++group) {
    GroupRows& rows = table.groups[group];
    while (rows.end > rows_for(group, num_tokens)) {
      leave(table, group, --rows.end);
      pool_.release_one(row(table, group, rows.end));
      rows.pages.resize(as_size(rows.end) * as_size(groups()[group].pages_per_row));
    }
  }
  set_lengths(table, table.num_computed, num_tokens);
}

void BlockTables::give_back(BlockTable& table) {
  for (std::size_t group = 0; group < groups().size(); ++group) {
    GroupRows& rows = table.groups[group];
    const std::int32_t kept = std::min(groups()[group].first_kept_row(table.num_computed), rows.end);
    // Last row first, as everywhere: the end of a prefix is evicted before its beginning.
    for (std::int32_t i = kept - 1; i >= rows.first; --i) {
      leave(table, group, i);
      pool_.release_one(row(table, group, i));
    }
    rows.first = std::max(rows.first, kept);
  }
}

void BlockTables::set_lengths(BlockTable& table, std::int32_t num_computed, std::int32_t num_tokens) {
  const std::int32_t size = geometry_.block_size();
  const std::int32_t computed_before = std::exchange(table.num_computed, num_computed);
  const std::int32_t tokens_before = std::exchange(table.num_tokens, num_tokens);
  if (computed_before == num_computed && tokens_before == num_tokens) return;
  // Rows before the first change are full before and after; rows after the last token are empty.
  const auto changed = [](std::int32_t a, std::int32_t b) { return a == b ? INT32_MAX : std::min(a, b); };
  const std::int32_t least =
      std::min(changed(computed_before, num_computed), changed(tokens_before, num_tokens));
  const std::int32_t most = std::max({computed_before, tokens_before, num_computed, num_tokens});
  for (std::size_t group = 0; group < groups().size(); ++group) {
    const GroupRows& rows = table.groups[group];
    const bool state = groups()[group].is_state();
    const std::int32_t end = state ? rows.end : std::min(rows.end, rows_for(group, most));
    for (std::int32_t i = state ? rows.first : std::max(rows.first, least / size); i < end; ++i)
      slots_.change(row(table, group, i), fill_of(computed_before, tokens_before, group, i),
                    fill_of(table, group, i));
  }
}

void BlockTables::share_rows(const GroupRows& from, std::size_t group, std::int32_t first, std::int32_t end,
                             BlockTable& table) {
  GroupRows& to = table.groups[group];
  const auto per_row = static_cast<std::ptrdiff_t>(groups()[group].pages_per_row);
  CHECK(first == end || (from.first <= first && end <= from.end));
  to = rows_from(group, first);
  for (; to.end < end; ++to.end) {
    const auto begin = from.pages.begin() + to.end * per_row;
    pool_.share(*begin);
    to.pages.insert(to.pages.end(), begin, begin + per_row);
    hold(table, group, to.end);
  }
}

void BlockTables::share_all(const BlockTable& table) {
  each_row(table, [&](std::size_t group, std::int32_t i) {
    pool_.share(row(table, group, i));
    hold(table, group, i);
  });
}

void BlockTables::append_row(BlockTable& table, std::size_t group, BlockId row) {
  GroupRows& rows = table.groups[group];
  pool_.append_pages(row, rows.pages);
  hold(table, group, rows.end++);
}

void BlockTables::hold_all(const BlockTable& table) {
  each_row(table, [&](std::size_t group, std::int32_t i) { hold(table, group, i); });
}

void BlockTables::leave_all(const BlockTable& table) {
  each_row(table, [&](std::size_t group, std::int32_t i) { leave(table, group, i); });
}

void BlockTables::release_all(const BlockTable& table) {
  each_row(table, [&](std::size_t group, std::int32_t i) {
    leave(table, group, i);
    pool_.release_one(row(table, group, i));
  });
}

RowFill BlockTables::fill_of(std::int32_t num_computed, std::int32_t num_tokens, std::size_t group,
                             std::int32_t at) const {
  const std::int32_t size = geometry_.block_size();
  const auto filled = [&](std::int32_t tokens) {
    if (groups()[group].is_state()) return tokens > 0 ? size : 0;
    return std::clamp(tokens - at * size, 0, size);
  };
  const std::int32_t computed = filled(num_computed);
  return {.computed = computed, .known = std::max(computed, filled(num_tokens))};
}

void BlockTables::hold(const BlockTable& table, std::size_t group, std::int32_t at) {
  slots_.hold(row(table, group, at), groups()[group].pages_per_row, fill_of(table, group, at));
}

void BlockTables::leave(const BlockTable& table, std::size_t group, std::int32_t at) {
  slots_.leave(row(table, group, at), fill_of(table, group, at));
}

SlotAccount::Total BlockTables::total(const EachTable& tables) const {
  return slots_.total([&](BlockId name, const auto& holder) {
    tables([&](const BlockTable& table) {
      each_row(table, [&](std::size_t group, std::int32_t i) {
        if (row(table, group, i) == name) holder(fill_of(table, group, i));
      });
    });
  });
}

SlotAccount::Total BlockTables::walk(const EachTable& tables) const {
  SlotAccount::Total out;
  // By row: fill and number of pages.
  std::unordered_map<std::int32_t, std::pair<RowFill, std::int32_t>> fullest;
  tables([&](const BlockTable& table) {
    each_row(table, [&](std::size_t group, std::int32_t i) {
      auto& [most, pages] = fullest[index(row(table, group, i))];
      const RowFill fill = fill_of(table, group, i);
      pages = groups()[group].pages_per_row;
      most = {.computed = std::max(most.computed, fill.computed), .known = std::max(most.known, fill.known)};
      out.held += pages;
    });
  });
  for (const auto& [name, entry] : fullest) {
    out.computed += std::int64_t{entry.second} * entry.first.computed;
    out.known += std::int64_t{entry.second} * entry.first.known;
  }
  return out;
}

void BlockTables::check(const BlockTable& table) const {
  CHECK(table.num_computed <= table.num_tokens);
  for (std::size_t group = 0; group < groups().size(); ++group) {
    const GroupRows& rows = table.groups[group];
    CHECK(rows.end == rows_for(group, table.num_tokens) && rows.first <= rows.end);
    CHECK(rows.pages.size() == as_size(rows.end) * as_size(groups()[group].pages_per_row));
    // The rows visible to the next position are present, and no more rows than necessary are kept.
    CHECK(rows.first <= groups()[group].first_visible_row(table.num_computed));
    CHECK(rows.first >= std::min(groups()[group].first_kept_row(table.num_computed), rows.end));
  }
}

}  // namespace pagoda
