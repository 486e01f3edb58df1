/** Temporary folders. */
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Makes an empty folder named `tandem-WORD-...`. The caller removes it. */
export const temporaryFolder = (word: string): Promise<string> => mkdtemp(join(tmpdir(), `tandem-${word}-`))
