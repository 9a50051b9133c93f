#pragma once
int helper(int x) {
  return undeclared_in_header + x;
}
