// Splits arithmetic expressions into tokens and evaluates them from left to right.

#include <cctype>
#include <stdexcept>
#include <string>
#include <vector>

enum class Kind { Number, Operator, Open, Close };

struct Token {
    Kind kind;
    std::string text;
};

bool is_operator(char c) {
    return c == '+' || c == '-' || c == '*' || c == '/';
}

std::vector<Token> tokenize(const std::string& text) {
    std::vector<Token> tokens;
    size_t i = 0;
    while (i < text.size()) {
        char c = text[i];
        if (std::isspace(static_cast<unsigned char>(c))) {
            i++;
        } else if (std::isdigit(static_cast<unsigned char>(c))) {
            size_t start = i;
            while (i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]))) {
                i++;
            }
            tokens.push_back({Kind::Number, text.substr(start, i - start)});
        } else if (is_operator(c)) {
            tokens.push_back({Kind::Operator, std::string(1, c)});
            i++;
        } else {
            throw std::runtime_error("unexpected character");
        }
    }
    return tokens;
}

int calc(int left, char op, int right) {
    switch (op) {
        case '+':
            return left + right;
        case '-':
            return left - right;
        case '*':
            return left * right;
        case '/':
            return left / right;
    }
    throw std::runtime_error("unknown operator");
}

int evaluate(const std::string& text) {
    std::vector<Token> tokens = tokenize(text);
    int result = std::stoi(tokens[0].text);
    for (size_t i = 1; i + 1 < tokens.size(); i += 2) {
        result = calc(result, tokens[i].text[0], std::stoi(tokens[i + 1].text));
    }
    return result;
}

std::string join(const std::vector<Token>& tokens, const std::string& separator) {
    std::string result;
    for (size_t i = 0; i < tokens.size(); i++) {
        if (i > 0) {
            result += separator;
        }
        result += tokens[i].text;
    }
    return result;
}

int count_kind(std::vector<Token> tokens, Kind kind) {
    int n = 0;
    for (const Token& token : tokens) {
        if (token.kind == kind) {
            n++;
        }
    }
    return n;
}

bool balanced(const std::string& text) {
    int depth = 0;
    for (char c : text) {
        if (c == '(') {
            depth++;
        } else if (c == ')') {
            depth--;
        }
    }
    return depth == 0;
}
