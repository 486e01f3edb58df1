/** In place of `../userModules.ts` in pages, which have no files and no threads of this kind. */

/** Returns `false`: modules of the user are part of the bundle. */
export const isUserModule = (_url: string): boolean => false

/** Rejects: pages load no files. */
export const importUserModule = async (module: string): Promise<Readonly<Record<string, unknown>>> => {
  throw new Error(`${module} cannot be imported in a page: bundle it`)
}
