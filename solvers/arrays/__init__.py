"""Arrays: values, gradients and Hessians of many clients at once, by numpy alone."""
