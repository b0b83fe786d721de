// Exceptions, methods, references and types with bases.
struct Shape {
  int sides;
  virtual ~Shape() {}
  virtual double area() const = 0;
};

struct Square : Shape {
  double side;
  double area() const override { return side * side; }
};

struct Guard {
  int *count;
  explicit Guard(int *count) : count(count) { ++*count; }
  ~Guard() { --*count; }
};

double measured(const Shape &shape, int *count) {
  Guard guard(count);
  if (shape.sides < 3)
    throw shape.sides;
  return shape.area();
}

double total(Shape **shapes, unsigned long length, int *count) {
  double sum = 0.5;
  for (unsigned long at = 0; at < length; ++at) {
    try {
      sum += measured(*shapes[at], count);
    } catch (int sides) {
      sum -= sides;
    }
  }
  return sum;
}
