/** Returns 1 for the right answer, 0.1 for another number in an `<answer>` tag, else 0. */
export const reward = (text: string, expected: string): number => {
  const answer = /<answer>\s*(-?\d{1,12})\s*<\/answer>/.exec(text)?.[1]
  if (answer === undefined) return 0
  return answer === expected ? 1 : 0.1
}
