/**
 * Prints how much there is to learn in this package, and whether it can be found: `npm run house`.
 */
import {
  type Counted,
  functionLengths,
  linesOfFolders,
  namesExportedTwice,
  optionFields,
  readSources,
  twoWayFolders,
  valuesWithoutCaller,
} from './kit/house.js'
import { publicProgram, publicSurface } from './kit/publicSurface.js'
import { SOURCE_FOLDERS } from './kit/workspace.js'

const say = (line: string): void => void process.stdout.write(`${line}\n`)
const top = ([first]: readonly Counted[]): string => (first === undefined ? 'none' : `${first.count} (${first.place})`)

const surface = publicSurface(publicProgram())
const src = readSources(SOURCE_FOLDERS)
const all = [...src, ...readSources(['recipes', 'bench', 'examples', 'assets/project'])]

say('Names per door')
for (const [door, names] of surface) {
  const values = names.filter(({ kind }) => kind === 'value').length
  say(`  ${door}: ${names.length} (${values} values, ${names.length - values} types)`)
}
const without = valuesWithoutCaller(all, surface)
say(`Public values that no file of src, recipes, bench or examples uses: ${without.length}`)
if (process.argv.includes('--names')) say(`  ${without.join(' ')}`)
const twice = namesExportedTwice(src)
say(`Names exported by two files or more: ${twice.size}`)
for (const [name, files] of twice) say(`  ${name}: ${files.join(', ')}`)
const pairs = twoWayFolders(src)
say(`Pairs of folders that import each other: ${pairs.length}`)
for (const pair of pairs) say(`  ${pair}`)
say(`Longest function, with its closures: ${top(functionLengths(src))}`)
say(`Largest record of options, by fields: ${top(optionFields(src))}`)
say('Lines per folder')
let sum = 0
for (const [folder, lines] of linesOfFolders(src)) {
  say(`  ${folder}: ${lines}`)
  sum += lines
}
say(`  all: ${sum}`)
