/**
 * Rooms of `src` that will be packages of their own, and what still joins them to the kernel: the
 * private names that they take, and the imports of them by the kernel.
 */
import { linksOf, type Source } from './house.js'
import type { PublicName } from './publicSurface.js'

/** Guest -> files that will be its package. The first that matches counts. */
const GUESTS: readonly (readonly [guest: string, files: RegExp])[] = [
  ['files', /^src\/data\/codecs\/(?!safetensors|jsonl)/],
  ['rewards', /^src\/envs\/(rewards\/|answerEnv|countdownEnv|mathEnv|ifEvalEnv)/],
]

const IS_DOOR = /^src\/(index\.ts|doors\/)/

/** The guest of a file, `kernel` for other files of `src`, and `undefined` for packages. */
const roomOf = (path: string): string | undefined =>
  path.startsWith('src/') ? (GUESTS.find(([, files]) => files.test(path))?.[0] ?? 'kernel') : undefined

/** The private names and imports that join a guest to the kernel. */
export interface Joint {
  /** Names that it imports from other rooms and that no door exports. */
  readonly takes: readonly string[]
  /** Files of the kernel that import it. */
  readonly takenBy: readonly string[]
}

/** Lists the private names that each guest takes, and the files of the kernel that import it. */
export const joints = (
  sources: readonly Source[],
  surface: ReadonlyMap<string, readonly PublicName[]>,
): Readonly<Record<string, Joint>> => {
  const isPublic = new Set([...surface.values()].flat().map(({ file, name }) => `${file} ${name}`))
  const links = sources
    .filter(({ path }) => !IS_DOOR.test(path))
    .flatMap(linksOf)
    .filter(({ from, to }) => roomOf(from) !== roomOf(to) && roomOf(to) !== undefined)
  const sorted = (items: readonly string[]): readonly string[] => [...new Set(items)].sort()
  return Object.fromEntries(
    GUESTS.map(([guest]) => [
      guest,
      {
        takes: sorted(
          links
            .filter(({ from }) => roomOf(from) === guest)
            .flatMap(({ to, names }) => names.filter((name) => !isPublic.has(`${to} ${name}`))),
        ),
        takenBy: sorted(
          links.filter(({ from, to }) => roomOf(to) === guest && roomOf(from) === 'kernel').map(({ from }) => from),
        ),
      },
    ]),
  )
}
