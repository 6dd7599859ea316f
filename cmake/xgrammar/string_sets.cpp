#include "string_sets.h"

#include <picojson.h>

#include <utility>
#include <vector>

#include "fsm_builder.h"
#include "work.h"

namespace pagoda {
namespace {

using xgrammar::FSMWithStartEnd;
using Automaton = xgrammar::Result<FSMWithStartEnd>;

constexpr int kMostStates = 1000;
constexpr std::size_t kMostExpressions = 64;

Automaton error(const char* message) { return xgrammar::ResultErr(message); }

// Removes the states from which no end state is reachable, since a text would get stuck there.
Automaton without_dead_ends(const FSMWithStartEnd& automaton) {
  const int count = automaton.NumStates();
  std::vector<std::vector<int>> sources(static_cast<std::size_t>(count));
  for (int state = 0; state < count; ++state)
    for (const auto& edge : automaton.GetFsm().GetEdges(state))
      sources[static_cast<std::size_t>(edge.target)].push_back(state);
  std::vector<int> numbers(static_cast<std::size_t>(count), -1),
      open(automaton.GetEnds().begin(), automaton.GetEnds().end());
  for (const int state : open) numbers[static_cast<std::size_t>(state)] = 0;
  while (!open.empty()) {
    const int state = open.back();
    open.pop_back();
    for (const int source : sources[static_cast<std::size_t>(state)]) {
      spend();
      if (std::exchange(numbers[static_cast<std::size_t>(source)], 0) < 0) open.push_back(source);
    }
  }
  if (numbers[static_cast<std::size_t>(automaton.GetStart())] < 0)
    return error("Nothing can be written of it");
  int next = 0;
  for (int& number : numbers)
    if (number == 0) number = next++;
  xgrammar::FSM live(next);
  std::vector<int32_t> ends;
  for (int state = 0; state < count; ++state) {
    const int from = numbers[static_cast<std::size_t>(state)];
    if (from < 0) continue;
    if (automaton.IsEndState(state)) ends.push_back(from);
    for (const auto& edge : automaton.GetFsm().GetEdges(state))
      if (const int to = numbers[static_cast<std::size_t>(edge.target)]; to >= 0)
        live.AddEdge(from, to, edge.min, edge.max);
  }
  return xgrammar::ResultOk(
      FSMWithStartEnd(live, numbers[static_cast<std::size_t>(automaton.GetStart())], std::move(ends), true));
}

}  // namespace

Automaton string_set(const std::string& expression, const std::bitset<256>& forbidden_chars) {
  picojson::value parts;
  const std::string text =
      expression.size() > 4 ? expression.substr(3, expression.size() - 4) : std::string();
  if (!picojson::parse(parts, text).empty() || !parts.is<picojson::object>() || expression.back() != ')')
    return error("A set of strings is not written so");
  // Accepts every possible content of a JSON string.
  Automaton all = xgrammar::RegexFSMBuilder::BuildWithForbiddenChars("[^\\x00-\\x1f]*", forbidden_chars);
  std::size_t count = 0;
  for (const bool matched : {true, false}) {
    const picojson::value list = parts.get(matched ? "all" : "none");
    if (!list.is<picojson::array>()) continue;
    for (const picojson::value& one : list.get<picojson::array>()) {
      if (!one.is<std::string>() || is_string_set(one.get<std::string>()) || ++count > kMostExpressions)
        return error("A set of strings is not written so");
      Automaton part =
          xgrammar::RegexFSMBuilder::BuildWithForbiddenChars(one.get<std::string>(), forbidden_chars);
      if (part.IsErr()) return part;
      if (!part.ValueRef().IsLeaf()) return error("A set of strings has a repetition that is too large");
      if (!matched) part = std::move(part).Unwrap().Not(kMostStates);
      if (part.IsErr()) return part;
      spend(static_cast<std::int64_t>(all.ValueRef().NumStates()) * part.ValueRef().NumStates());
      all = FSMWithStartEnd::Intersect(std::move(all).Unwrap(), std::move(part).Unwrap(), kMostStates);
      if (all.IsErr()) return all;
    }
  }
  all = without_dead_ends(all.ValueRef());
  if (all.IsErr()) return all;
  all = std::move(all).Unwrap().MinimizeDFA(kMostStates);
  return all;
}

}  // namespace pagoda
