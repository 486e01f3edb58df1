/** What an answer is worth: 1 if it is right, 0.1 if it is an answer at all. */
export const reward = (text: string, expected: string): number => {
  const answer = /<answer>\s*(-?\d{1,12})\s*<\/answer>/.exec(text)?.[1]
  if (answer === undefined) return 0
  return answer === expected ? 1 : 0.1
}
