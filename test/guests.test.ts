/**
 * Rooms that will be packages: the private names that they take, and the kernel's files that import
 * them. `test/guests.json` lists what is left; a line may go from it, and none may come.
 */
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { joints } from '../scripts/kit/guests.js'
import { readSources } from '../scripts/kit/house.js'
import { publicProgram, publicSurface } from '../scripts/kit/publicSurface.js'

const found = joints(readSources(['src']), publicSurface(publicProgram()))
const listed = JSON.parse(readFileSync('test/guests.json', 'utf8')) as typeof found // our own file

it.each(Object.entries(found))(
  '%s takes no further private names, and no further file of the kernel imports it',
  (guest, joint) => {
    const known = listed[guest] ?? { takes: [], takenBy: [] }
    expect(joint.takes.filter((name) => !known.takes.includes(name))).toEqual([])
    expect(joint.takenBy.filter((file) => !known.takenBy.includes(file))).toEqual([])
  },
)

it('the list has nothing that is no longer so: delete those lines', () => {
  const gone = Object.entries(listed).flatMap(([guest, { takes, takenBy }]) => [
    ...takes.filter((name) => !found[guest]?.takes.includes(name)),
    ...takenBy.filter((file) => !found[guest]?.takenBy.includes(file)),
  ])
  expect(gone).toEqual([])
})
