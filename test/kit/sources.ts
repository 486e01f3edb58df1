/** Packages of this repository as sources, for all configurations of vitest. */
/** The condition under which `exports` lead to TypeScript. Users never set it. */
const CONDITION = 'tandem-source'

/** Vitest's own condition is listed again, because these replace it. */
const conditions = [CONDITION, 'node']

/** Resolves packages to sources in the processes of the tests. */
export const SOURCES = { resolve: { conditions }, ssr: { resolve: { conditions } } } as const

/** Resolves them to sources, or to what the kit compiles, in processes that tests start. */
export const SOURCES_ENV = { NODE_OPTIONS: `--conditions=${CONDITION}` } as const
