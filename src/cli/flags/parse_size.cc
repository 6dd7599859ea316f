#include "cli/flags/parse_size.h"

#include <charconv>
#include <cmath>

namespace pagoda {
namespace {

// Returns the factor of a suffix; nullopt if unknown.
std::optional<double> factor_of(std::string_view suffix) {
  if (suffix.empty() || suffix == "B") return 1.0;
  const char unit = suffix.front();
  const bool upper = unit >= 'A' && unit <= 'Z';
  const std::size_t power = std::string_view("kmgt").find(upper ? static_cast<char>(unit - 'A' + 'a') : unit);
  if (power == std::string_view::npos) return std::nullopt;
  const std::string_view rest = suffix.substr(1);
  if (rest != "" && rest != "B" && rest != "iB") return std::nullopt;
  const bool binary = rest == "iB" || (rest.empty() && upper);
  return std::pow(binary ? 1024.0 : 1000.0, static_cast<double>(power + 1));
}

}  // namespace

std::optional<std::int64_t> parse_size(std::string_view text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
  const auto factor = factor_of(text.substr(static_cast<std::size_t>(end - text.data())));
  if (!factor || number * *factor > 0x1p62) return std::nullopt;
  if (*factor == 1.0 && number != std::floor(number)) return std::nullopt;  // no fractions of a byte or token
  // The small addend corrects products such as 25.6k, which floating point places just below the whole
  // number.
  return static_cast<std::int64_t>(std::floor(number * *factor + 1e-6));
}

}  // namespace pagoda
