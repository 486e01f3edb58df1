/**
 * Measures what an installation takes: `npm run bench -- installSize`.
 *
 * Packs the working tree, installs the tarballs with npm in an empty project and prints the size on
 * disk, the packages, onnxruntime's libraries by platform, and the time that TypeScript takes for a
 * recipe of about 100 lines. Needs the npm registry.
 */
import { lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pack, userProject } from '../test/kit/packed.js'

const RECIPE = 'recipes/numberGuessing.ts'

/** Bytes of the files in a folder. */
const bytesIn = (folder: string): number =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => lstatSync(join(folder, name)))
    .reduce((sum, entry) => sum + (entry.isFile() ? entry.size : 0), 0)

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`

const printSizes = (modules: string): void => {
  // Cast: the lock file that npm writes into node_modules.
  const lock = JSON.parse(readFileSync(join(modules, '.package-lock.json'), 'utf8')) as { packages: object }
  const names = Object.keys(lock.packages).map((path) => path.replace(/^node_modules\//, ''))
  console.log(`${megabytes(bytesIn(modules))}, ${names.length} packages`)
  const groups = [...new Set(names.map((name) => name.split('/')[0] ?? name))]
  const sized = groups.map((name) => ({ name, bytes: bytesIn(join(modules, name)) }))
  for (const { name, bytes } of sized.sort((a, b) => b.bytes - a.bytes).slice(0, 6))
    console.log(`  ${megabytes(bytes).padStart(9)}  ${name}`)
  const libraries = join(modules, 'onnxruntime-node/bin')
  const platforms = readdirSync(libraries).flatMap((napi) =>
    readdirSync(join(libraries, napi)).flatMap((system) =>
      readdirSync(join(libraries, napi, system)).map((machine) => join(napi, system, machine)),
    ),
  )
  console.log("onnxruntime's libraries by platform:")
  for (const platform of platforms)
    console.log(`  ${megabytes(bytesIn(join(libraries, platform))).padStart(9)}  ${platform}`)
}

const folder = mkdtempSync(join(tmpdir(), 'tandem-size-'))
try {
  const project = await userProject(join(folder, 'project'), 'npm')
  await project.add([], await pack(folder))
  printSizes(join(project.folder, 'node_modules'))
  await project.add(['@types/node@20'])
  const recipe = readFileSync(RECIPE, 'utf8')
  console.log(`TypeScript, ${RECIPE}, ${recipe.trim().split('\n').length} lines, skipLibCheck:`)
  for (const line of await project.diagnostics(recipe, { skipLibCheck: true, types: ['node'] }))
    console.log(`  ${line}`)
} finally {
  rmSync(folder, { recursive: true })
}
