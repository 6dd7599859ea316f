#pragma once
// Characters as in Python's str: classification and full case mapping (utf8proc plus Unicode's
// SpecialCasing). Text should be valid UTF-8; a malformed byte counts as one character without properties.
#include <cstdint>
#include <string>
#include <string_view>

namespace pagoda::jinja {

// The character at `at`; advances `at` past it.
char32_t next_char(std::string_view text, std::size_t& at);
// The character that ends at `at`; moves `at` to its start.
char32_t previous_char(std::string_view text, std::size_t& at);
void append_utf8(std::string& out, char32_t c);

bool is_space(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_lower(char32_t c);  // has the property Lowercase
bool is_upper(char32_t c);
bool is_title(char32_t c);
bool is_cased(char32_t c);
bool is_case_ignorable(char32_t c);
bool is_printable(char32_t c);
bool is_identifier_start(char32_t c);
bool is_identifier_part(char32_t c);
inline bool is_alnum(char32_t c) { return is_alpha(c) || is_numeric(c); }

void append_upper(std::string& out, char32_t c);
void append_lower(std::string& out, char32_t c);
void append_title(std::string& out, char32_t c);
void append_folded(std::string& out, char32_t c);

// str.islower and str.isupper: at least one character has that case, and none the other.
bool is_all_lower(std::string_view text);
bool is_all_upper(std::string_view text);

// Bytes of the first `count` characters of `text`; its size if it has fewer.
std::size_t byte_offset(std::string_view text, std::int64_t count);

}  // namespace pagoda::jinja
