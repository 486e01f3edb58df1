/** The pairs under "browser" in each package.json: both files exist and export the same names. */
import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { readSources } from '../scripts/kit/house.js'
import { PACKAGES, SOURCE_FOLDERS, sourceOf } from '../scripts/kit/workspace.js'

const PAIRS = PACKAGES.flatMap((each) =>
  Object.entries(each.manifest.browser ?? {}).map(
    ([node, web]) => [sourceOf(each, node), sourceOf(each, web)] as const,
  ),
)

/** Names that only files of Node use, or that nothing in a bundle for browsers uses. */
const NODE_ONLY: readonly string[] = [
  'messagePort',
  'liveUsage',
  'host',
  'lockState',
  'runThread',
  'readRegularText',
  'temporaryName',
  'writeWhole',
  'streamOutput',
]

const valuesOf = (path: string): readonly string[] =>
  [...readFileSync(path, 'utf8').matchAll(/^export (?:const|function) (\w+)|as (\w+) } from/gm)].map(
    ([, own, other]) => own ?? other ?? '',
  )

describe('files for browsers', () => {
  it.each(PAIRS)('%s is replaced by %s, which has its names', (node, web) => {
    expect(existsSync(node)).toBe(true)
    const names = new Set(valuesOf(web))
    expect(valuesOf(node).filter((name) => !names.has(name) && !NODE_ONLY.includes(name))).toEqual([])
  })

  it('are all listed', () => {
    const listed = new Set(PAIRS.map(([, web]) => web))
    const inside = new Set(['globals', 'emscripten', 'webAssembly', 'webGpu', 'webGpuMessages', 'webGpuWorker'])
    const files = readSources(SOURCE_FOLDERS)
      .map(({ path }) => path)
      .filter((path) => path.includes('/browser/') && !inside.has(/(\w+)\.ts$/.exec(path)?.[1] ?? ''))
    expect(files.sort()).toEqual([...listed].sort())
  })
})
