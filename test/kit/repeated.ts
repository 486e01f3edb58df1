/** Repeats each element `count` times, in place. */
export const repeated = <T>(rows: readonly T[], count: number): T[] =>
  rows.flatMap((row) => Array.from({ length: count }, () => row))
