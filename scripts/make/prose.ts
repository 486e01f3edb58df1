/**
 * Counts the lines in the style that pages and comments must not have: `npm run make -- prose`.
 * With a path, such as `npm run make -- prose src/data`, it lists them. `--write` lowers the
 * budget that the tests compare.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { markedLines, proseCounts } from '../kit/prose.js'
import { BUDGET_FILE, lowered, readBudget } from '../kit/proseBudget.js'

const [path] = process.argv.slice(2).filter((argument) => !argument.startsWith('--'))
const lines = markedLines()

if (path !== undefined) {
  for (const { mark, file, line, text } of lines.filter(({ file }) => file.startsWith(path)))
    process.stdout.write(`${file}:${line} ${mark}: ${text}\n`)
} else {
  const counts = proseCounts(lines)
  console.table(counts)
  for (const mark of ['opening', 'words', 'long'] as const)
    process.stdout.write(`${mark}: ${Object.values(counts).reduce((sum, area) => sum + area[mark], 0)}\n`)
  if (process.argv.includes('--write')) {
    const budget = lowered(readBudget(readFileSync(BUDGET_FILE, 'utf8')), counts)
    writeFileSync(BUDGET_FILE, `${JSON.stringify(budget, null, 2)}\n`)
  }
}
