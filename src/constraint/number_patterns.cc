#include "constraint/number_patterns.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::int64_t kMaxValues = 1000;
constexpr double kFarthest = 1e15;

void add_range(std::string& out, const std::string& prefix, std::string_view least, std::string_view most) {
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : "|") + text; };
  if (least.empty()) return add(prefix);
  if (least.front() == most.front())
    return add_range(out, prefix + least.front(), least.substr(1), most.substr(1));
  const std::size_t rest = least.size() - 1;
  const auto digits = [&](char from, char to) {
    const std::string first =
        from == to ? std::string(1, from) : concat("[", std::string(1, from), "-", std::string(1, to), "]");
    add(concat(prefix, first, rest == 0 ? "" : concat("[0-9]{", rest, "}")));
  };
  char from = least.front(), to = most.front();
  if (least.substr(1).find_first_not_of('0') != std::string_view::npos)
    add_range(out, prefix + from++, least.substr(1), std::string(rest, '9'));
  const bool cut = most.substr(1).find_first_not_of('9') != std::string_view::npos;
  if (cut) --to;
  if (from <= to) digits(from, to);
  if (cut) add_range(out, prefix + most.front(), std::string(rest, '0'), most.substr(1));
}

// Matches the whole numbers from `least` to `most`, neither negative.
std::string whole_numbers(std::int64_t least, std::int64_t most) {
  std::string out;
  while (least <= most) {
    const std::string first = std::to_string(least);
    const std::int64_t longest = std::stoll(std::string(first.size(), '9'));
    add_range(out, "", first, std::to_string(std::min(most, longest)));
    if (longest >= most) break;
    least = longest + 1;
  }
  return out;
}

// Non-negative numbers: the whole numbers of [least, most], each except the last optionally with a fraction.
std::string magnitudes(int places, double least, double most) {
  const std::string fraction = concat("([.][0-9]{1,", places, "})?");
  if (most > kFarthest && least <= 0) return concat("(0|[1-9][0-9]{0,14})", fraction);
  const auto first = static_cast<std::int64_t>(std::ceil(std::max(0.0, least)));
  if (most > kFarthest) most = kFarthest;
  const auto last = static_cast<std::int64_t>(std::floor(most));
  std::string out;
  if (first < last) out = concat("(", whole_numbers(first, last - 1), ")", fraction);
  if (first <= last) out += concat(out.empty() ? "" : "|", last, "([.]0{1,", places, "})?");
  return out;
}

}  // namespace

std::optional<json::array> multiples(const json::object& schema) {
  const auto number = [&](const char* name) { return schema.at(name).to_number<double>(); };
  const auto step = static_cast<std::int64_t>(number("multipleOf"));
  const bool from = schema.contains("minimum"), to = schema.contains("maximum");
  if ((from && std::abs(number("minimum")) > kFarthest) || (to && std::abs(number("maximum")) > kFarthest))
    return std::nullopt;
  std::int64_t first =
      from ? static_cast<std::int64_t>(std::ceil(number("minimum") / static_cast<double>(step))) : 0;
  std::int64_t last =
      to ? static_cast<std::int64_t>(std::floor(number("maximum") / static_cast<double>(step))) : 0;
  if (!from) first = last - kMaxValues + 1;
  if (!to) last = first + kMaxValues - 1;
  if (last - first >= kMaxValues) {
    const std::int64_t middle = std::clamp<std::int64_t>(0, first, last);
    first = std::max(first, std::min(middle - kMaxValues / 2, last - kMaxValues + 1));
    last = first + kMaxValues - 1;
  }
  json::array out;
  for (std::int64_t n = first; n <= last; ++n) out.push_back(n * step);
  return out;
}

std::optional<std::string> decimals(int places, std::optional<double> least, std::optional<double> most) {
  const double low = least.value_or(-2 * kFarthest), high = most.value_or(2 * kFarthest);
  if (low > high || low > kFarthest || high < -kFarthest) return std::nullopt;
  std::string out = high >= 0 ? magnitudes(places, low, high) : std::string();
  if (low < 0)
    if (const std::string below = magnitudes(places, -high, -low); !below.empty())
      out += concat(out.empty() ? "" : "|", "-(", below, ")");
  if (out.empty()) return std::nullopt;
  return concat("(", out, ")");
}

}  // namespace pagoda
