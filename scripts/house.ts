/**
 * Prints how much there is to learn in this package, and whether it can be found: `npm run house`.
 */
import { joints } from './kit/guests.js'
import {
  arrowsOf,
  type Counted,
  floorsOf,
  functionLengths,
  linesOfFolders,
  namesExportedTwice,
  optionFields,
  readSources,
  twoWayFolders,
  valuesWithoutCaller,
} from './kit/house.js'
import { publicProgram, publicSurface } from './kit/publicSurface.js'
import { PACKAGES, SOURCE_FOLDERS } from './kit/workspace.js'

const say = (line: string): void => void process.stdout.write(`${line}\n`)
const top = ([first]: readonly Counted[]): string => (first === undefined ? 'none' : `${first.count} (${first.place})`)

const surface = publicSurface(publicProgram())
const src = readSources(SOURCE_FOLDERS)
const everything = [...src, ...readSources(['recipes', 'bench', 'examples', 'assets/project'])]

say('Names per door')
for (const [door, names] of surface) {
  const values = names.filter(({ kind }) => kind === 'value').length
  say(`  ${door}: ${names.length} (${values} values, ${names.length - values} types)`)
}
const without = valuesWithoutCaller(everything, surface)
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
const lines = linesOfFolders(src)
const arrows = arrowsOf(src)
const floors = floorsOf(arrows)
say('Rooms: lines, floor, rooms that it imports')
for (const [room, count] of lines)
  say(`  ${room}: ${count}, ${floors.get(room) ?? 0}, ${arrows.filter(([from]) => from === room).length}`)
const all = (counts: Iterable<number>): number => [...counts].reduce((sum, count) => sum + count, 0)
say(`  all: ${all(lines.values())}, ${Math.max(...floors.values()) + 1} floors, ${arrows.length} arrows`)
say('Packages: lines, own public names')
for (const { src: folder, manifest } of PACKAGES) {
  const own = [...surface].flatMap(([door, names]) =>
    door === manifest.name || door.startsWith(`${manifest.name}/`)
      ? names.filter(({ file }) => file.startsWith(`${folder}/`))
      : [],
  )
  const sources = src.filter(({ path }) => path.startsWith(`${folder}/`))
  const names = new Set(own.map(({ file, name }) => `${file} ${name}`)).size
  say(`  ${manifest.name}: ${all(linesOfFolders(sources).values())}, ${names}`)
}
say('Rooms that become packages: private names that they take, files of the kernel that import them')
for (const [guest, { takes, takenBy }] of Object.entries(joints(src, surface)))
  say(`  ${guest}: ${takes.length}, ${takenBy.length}`)
