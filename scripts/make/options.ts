/**
 * Writes the tables of option kinds from the types of the options: `npm run make -- options`.
 * `checkOptions` refuses unknown options and wrong kinds with the `optionKinds.ts` of each folder
 * of `src`. `npm run make -- options --check` writes nothing, and fails if a table differs from
 * its type.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { optionKindsFiles } from '../kit/optionKinds.js'
import { publicProgram } from '../kit/publicSurface.js'

const stale = [...optionKindsFiles(publicProgram())].filter(
  ([path, text]) => !existsSync(path) || readFileSync(path, 'utf8') !== text,
)
const isCheck = process.argv.includes('--check')
for (const [path, text] of stale) {
  if (!isCheck) writeFileSync(path, text)
  process.stdout.write(isCheck ? `${path} differs from the types: npm run make -- options\n` : `wrote ${path}\n`)
}
if (isCheck && stale.length > 0) process.exitCode = 1
