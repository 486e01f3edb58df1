/**
 * Installs the packed package as its users do, compiles it without `skipLibCheck`, runs it and
 * bundles it.
 */
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build, transformSync } from 'esbuild'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { PACKAGES } from '../../scripts/kit/workspace.js'
import { guidePrograms } from '../kit/guidePages.js'
import { DOORS, importing, type Project, pack, type Tarballs, userProject } from '../kit/packed.js'

const folder = mkdtempSync(join(tmpdir(), 'tandem-installed-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** Doors whose functions return values of an optional package, and that package. */
const NEEDS: Readonly<Record<string, string>> = {
  '@tandem-rl/testing': 'fast-check',
  '@tandem-rl/games/testing': 'fast-check',
}

/** Doors that work without optional packages. */
const FREE = DOORS.filter((door) => !Object.hasOwn(NEEDS, door))

/** The package of an import path. */
const packageOf = (door: string): string =>
  door
    .split('/')
    .slice(0, door.startsWith('@') ? 2 : 1)
    .join('/')

const namesOf = async (project: Project, doors: readonly string[]): Promise<readonly number[]> =>
  JSON.parse(await project.run(importing(doors))) as readonly number[] // cast: what the program prints

/** A program that uses the engine, the gradients of tfjs and a TensorDict. */
const GRADIENT = `
  import { tf } from 'tandem-rl'
  import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
  import { get, TensorDict } from 'tandem-rl/tensordict'
  const { backend } = await selectBackend()
  const x = get(TensorDict({ x: tf.tensor1d([3]) }, [1]), 'x')
  console.log(backend, tf.grad((y) => tf.square(y))(x).dataSync()[0])`

/** The programs that the README shows. */
const README = [...readFileSync('README.md', 'utf8').matchAll(/```ts\n([\s\S]*?)```/g)].map(([, program]) => program!)

const IS_SHORT = process.env.LEARNING === 'short'

/** For other managers, the short form runs one: how packages resolve shows in each of them. */
const README_AGAIN = IS_SHORT ? README.slice(0, 1) : README

/** Managers that hide what a package does not depend on. The short form has the stricter one. */
const STRICT = IS_SHORT ? (['yarn'] as const) : (['pnpm', 'yarn'] as const)

/** A program with one error. */
const WRONG = `import { noSuchName } from 'tandem-rl'\nnoSuchName()`

/** Runs programs of the README for a step: recipes by `tandem train`, the others by Node. */
const runReadme = async (project: Project, programs: readonly string[]): Promise<void> => {
  for (const [i, program] of programs.entries()) {
    if (program.includes('export const recipe')) {
      await writeFile(join(project.folder, `readme${i}.ts`), program)
      const limits = ['--steps', '1', '--prompts', '2', '--group', '2', '--eval-tasks', '2']
      await project.tandem(['train', `./readme${i}.ts`, ...limits, '--threads', '1', '--out', `run${i}`])
      expect(existsSync(join(project.folder, `run${i}/report.html`))).toBe(true)
    } else {
      const { code } = transformSync(program, { loader: 'ts', target: 'node20' })
      const output = await project.run(`process.argv.push('1', 'run${i}')\n${code}`)
      expect(output).toMatch(/^(step 1: \d+ of 128 right|finished after 1 step)$/m)
    }
  }
}

let tarballs: Tarballs
let npm: Project

beforeAll(async () => {
  tarballs = await pack(folder)
  npm = await userProject(join(folder, 'npm'), 'npm')
  await npm.add(['@types/node@20'], tarballs)
})

describe('the tarball', () => {
  const packed = join(folder, 'staged')

  it('has every file that the README links to', () => {
    const links = [...readFileSync(join(packed, 'README.md'), 'utf8').matchAll(/\]\((?![a-z]+:)([^)#]+)[^)]*\)/g)]
    expect(links.length).toBeGreaterThan(30)
    expect(links.flatMap(([, path = '']) => (existsSync(join(packed, path)) ? [] : [path]))).toEqual([])
  })

  it('has no source maps and refers to none', () => {
    const compiled = readdirSync(join(packed, 'dist'), { recursive: true, encoding: 'utf8' })
    expect(compiled.filter((name) => name.endsWith('.map'))).toEqual([])
    const scripts = compiled.filter((name) => /\.(js|ts)$/.test(name))
    expect(scripts.length).toBeGreaterThan(1000)
    const mapped = scripts.filter((name) =>
      /^\/\/# sourceMappingURL/m.test(readFileSync(join(packed, 'dist', name), 'utf8')),
    )
    expect(mapped).toEqual([])
  })
})

describe('a project with npm, without optional packages', () => {
  it.each([
    [6, 'types of Node', {}],
    [7, 'types of Node', {}],
    [7, 'types of Node, no DOM', { lib: ['ES2022'] }],
    [7, 'no types of Node', { types: [] }],
  ] as const)(
    'compiles every door and the README by TypeScript %d without skipLibCheck, and reports a wrong program: %s',
    async (version, _, options) => {
      const readme = 'types' in options ? [] : README // its programs use `process`
      const errors = await npm.compile([WRONG, importing(FREE), ...readme], options, version)
      expect(errors).toEqual([expect.stringMatching(/^program0\.ts.*noSuchName/)])
    },
  )

  it('runs the programs of the README', async () => {
    await runReadme(npm, README)
  })

  it('runs every door', async () => {
    expect(Math.min(...(await namesOf(npm, FREE)))).toBeGreaterThan(0)
    expect(await npm.run(GRADIENT)).toBe('onnxruntime 6\n')
  })

  it('bundles every door, and the bundle needs onnxruntime-node alone', async () => {
    const bundled = join(folder, 'bundled')
    await mkdir(join(bundled, 'node_modules'), { recursive: true })
    symlinkSync(join(npm.folder, 'node_modules/onnxruntime-node'), join(bundled, 'node_modules/onnxruntime-node'))
    const bundle = async (program: string): Promise<Project> => {
      const entry = join(npm.folder, 'entry.mjs')
      await writeFile(entry, program)
      const { outputFiles } = await build({
        ...{ entryPoints: [entry], bundle: true, write: false, platform: 'node', format: 'esm', logLevel: 'silent' },
        external: ['onnxruntime-node'],
        banner: {
          js: `import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url)`,
        },
      })
      const project = await userProject(bundled, 'npm')
      return { ...project, run: () => project.run(outputFiles.map(({ text }) => text).join('')) }
    }
    const all = await bundle(importing(FREE))
    expect(await namesOf(all, FREE)).toEqual(await namesOf(npm, FREE))
    expect(await (await bundle(GRADIENT)).run('')).toBe('onnxruntime 6\n')
  })

  it.each(Object.entries(NEEDS))('compiles and runs %s with %s', async (door, needed) => {
    await npm.add([needed])
    expect(await npm.compile(importing([door]))).toEqual([])
    expect(Math.min(...(await namesOf(npm, [door])))).toBeGreaterThan(0)
  })
})

describe.each(STRICT)('a project with %s, whose packages import only what they depend on', (manager) => {
  it('compiles and runs every door and the programs of the README', async () => {
    const project = await userProject(join(folder, manager), manager)
    await project.add(['@types/node@20', 'typescript@6'], tarballs)
    const nodeTypes = '/// <reference types="node" />'
    expect(await project.compile([nodeTypes, importing(FREE), GRADIENT, ...README], { types: [] })).toEqual([])
    expect(await namesOf(project, FREE)).toEqual(await namesOf(npm, FREE))
    expect(await project.run(GRADIENT)).toBe('onnxruntime 6\n')
    await runReadme(project, README_AGAIN)
  })
})

describe('a package of a user with an environment, a reward, a recipe and a command', () => {
  it('is compiled against the published packages, installed, and adds its command to tandem', async () => {
    const source = join(folder, 'dice')
    cpSync('test/programs/guest', source, { recursive: true })
    symlinkSync(join(npm.folder, 'node_modules'), join(source, 'node_modules'))
    await npm.add([await npm.packOwn(source)])
    expect(await npm.tandem(['--help'])).toMatch(/^ {2}dice .*Print throws of two dice\.$/m)
    expect((await npm.tandem(['dice', '2'])).trim().split('\n')).toHaveLength(2)
    await expect(npm.tandem(['dice', '101'])).rejects.toThrow('tandem: at most 100 throws')
    await writeFile(join(npm.folder, 'dice.ts'), `export { recipe } from 'tandem-dice/recipe'\n`)
    const small = ['--steps', '1', '--prompts', '2', '--group', '2', '--eval-tasks', '2', '--threads', '1']
    const few = ['--shared-tasks', 'allow'] // there are 36 throws
    await npm.tandem(['train', './dice.ts', ...small, ...few, '--out', 'diceRun'])
    expect(existsSync(join(npm.folder, 'diceRun/report.html'))).toBe(true)
  })
})

describe('a project with the kernel alone', () => {
  it('compiles, trains, and reads how to install the package of a command', async () => {
    const own = PACKAGES.find(({ folder: place }) => place === '')!.manifest.dependencies ?? {}
    const kernel = new Map([...tarballs].filter(([name]) => name === 'tandem-rl' || name in own))
    const alone = await userProject(join(folder, 'alone'), 'npm')
    await alone.add(['@types/node@20'], kernel)
    expect(await alone.compile(importing(FREE.filter((door) => kernel.has(packageOf(door)))))).toEqual([])
    await expect(alone.tandem(['arena'])).rejects.toThrow('npm i -D @tandem-rl/games')
    expect(await alone.tandem(['--help'])).toContain('arena     npm i -D @tandem-rl/games')
    await runReadme(alone, README.slice(0, 1))
  })
})

/** Packages that programs of the guide import and that Tandem does not depend on. */
const OF_THE_GUIDE = [
  ...['fast-check', 'keyv', '@modelcontextprotocol/sdk', 'tokenizers', '@cortex-js/compute-engine', 'eld'],
  ...['hyparquet', 'hyparquet-compressors', 'hyparquet-writer'],
  ...['@opentelemetry/api', '@opentelemetry/sdk-trace-base', '@opentelemetry/exporter-trace-otlp-http'],
]

describe('the guide', () => {
  it('has programs that run in a project outside the repository', async () => {
    await npm.add(OF_THE_GUIDE)
    for (const { name, program } of guidePrograms)
      await writeFile(join(npm.folder, `${name}.mjs`), transformSync(program, { loader: 'ts', target: 'node20' }).code)
    const names = guidePrograms.map(({ name }) => name)
    const output = await npm.run(`
      for (const name of ${JSON.stringify(names)}) {
        await import('./' + name + '.mjs')
        console.log('ran', name)
      }
      process.exit(0)`)
    expect(output.match(/^ran .*$/gm)).toEqual(names.map((name) => `ran ${name}`))
  })
})
