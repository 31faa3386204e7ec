"""One file and one command in many spellings, and ordinary calls: data of `test_spellings`.

In texts `{p}` is the forbidden file, seen from the working directory, `{abs}` its absolute path,
`{dir}` and `{name}` its parts, `{root}` the folder around all; `{v}` a folder that a command
removes.
"""

from __future__ import annotations

from typing import Any


def _lines(text: str) -> list[str]:
    return text.strip().split("\n")


TEXTS = [
    "{p}",
    "./{p}",
    "././././{p}",
    ".//{p}",
    "{p_dots}",
    "{dots}{p}",
    "data/../{p}",
    "data/deep/../../{p}",
    "data/../data/../{p}",
    "{abs}",
    "/{abs}",
    "{abs_dots}",
    "{root}/app/data/../../app/{p}",
    "../app/{p}",
    "file://{abs}",
    "FILE://{abs}",
    "file:{abs}",
    " file://{abs}",
    "file://localhost{abs}",
    "{percent}",
    "{percent_twice}",
    "%2e/{p}",
    "%2E%2F{p}",
    "{dir}%2f{name}",
    "{dir}%5c{name}",
    "{dir}\\{name}",
    ".\\{dir}\\{name}",
    " {p}",
    "{p} ",
    "\t{p}",
    "'{p}'",
    '"{p}"',
    "`{p}`",
    " '{p}' ",
    "$PWD/{p}",
    "${PWD}/{p}",
    "~/../app/{p}",
    "$HOME/../app/{p}",
    "${HOME}/../app/{p}",
    "none/../{p}",
    "none/here/../../{p}",
    "http://../{p}",
    "http://../../app/{p}",
    "{dir}/./{name}",
    "{dir}//{name}",
    "{dir}/none/../{name}",
]

SHAPES: list[dict[str, Any]] = [
    {"file": "{p}"},
    {"file_path": "{p}"},
    {"filePath": "{p}"},
    {"AbsolutePath": "{abs}"},
    {"TargetFile": "{abs}"},
    {"target-file": "{p}"},
    {"FILE_NAME": "{p}"},
    {"notebook_path": "{abs}"},
    {"path": "data/a", "move_to": "{p}"},
    {"path": "data/a", "moveTo": "{p}"},
    {"path": "data/a", "new_path": "{p}"},
    {"path": "data/a", "operation": {"move_to": "{p}"}},
    {"old_path": "data/a", "newPath": "{p}"},
    {"source": "data/a", "destination": "{p}"},
    {"src": "data/a", "dst": "{p}"},
    {"path": "data/a", "rename_to": "{p}"},
    {"output_file": "{p}"},
    {"save_to": "{p}"},
    {"paths": ["data/a", "{p}"]},
    {"paths": [["{p}"]]},
    {"files": [{"path": "data/a"}, {"path": "{p}"}]},
    {"files": [{"name": "{p}", "content": "x"}]},
    {"files": {"{p}": "content"}},
    {"files": {"data/a": "x", "{p}": {"content": "x"}}},
    {"files": {"{p}": None}},
    {"edits": [{"file": {"path": "{p}"}}]},
    {"edits": {"deep": {"deeper": [{"file_path": "{p}"}]}}},
    {"files": '["{p}"]'},
    {"files": ' ["data/a", "{p}"]'},
    {"files": '{"{p}": "content"}'},
    {"paths": '[["{p}"]]'},
    {"edits": '[{"path": "{p}"}]'},
    {"edits": '{"a": "[{\\"path\\": \\"{p}\\"}]"}'},
    {"request": '{"path": "{p}", "path": "data/a", "x": "{p}"}'},
    {"request": '{"path": "\\u002e/{p}"}'},
    {"path": "{p}", "cwd": "data"},
    {"path": "{p}", "cwd": "{root}/app/data/deep"},
    {"path": "{p}", "root": "{root}/app/data"},
    {"path": "{p}", "meta": {"cwd": "data"}},
    {"path": "{p}", "base_dir": "none"},
    {"cwd": "{absdir}", "path": "{name}"},
    {"root": "{dir}", "path": "{name}"},
    {"base_dir": "data", "path": "../{p}"},
    {"input": "*** Begin Patch\n*** Add File: {p}\n+x\n*** End Patch"},
    {"input": "*** Begin Patch\n*** Update File: {p}\n@@\n-a\n+b\n*** End Patch"},
    {"input": "*** Begin Patch\n*** Delete File: {p}\n*** End Patch"},
    {"input": "*** Begin Patch\n*** Update File: data/a\n*** Move to: {p}\n*** End Patch"},
    {"patch": "  *** Add File: {p}  \n+x"},
    {"patch": "--- a/{p}\n+++ b/{p}\n@@ -1 +1 @@\n-a\n+b\n"},
    {"patch": "--- data/a\n+++ {p}\n@@ -1 +1 @@\n-a\n+b\n"},
    {"patch": "--- {p}\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"},
    {"diff": "--- a/data/a\n+++ b/{p}\t2026-01-01\n@@ -1 +1 @@\n-a\n+b\n"},
    {"diff": 'diff --git a/x b/x\n--- a/x\n+++ "b/\\056/{p}"\n'},
    {"anything": "diff --git a/x b/{p}\nsimilarity index 100%\nrename from x\nrename to {p}\n"},
    {"anything": "diff --git a/x b/y\ncopy from x\ncopy to {p}\n"},
    {"anything": "diff --git a/{p} b/{p}\ndeleted file mode 100644\n"},
    {"anything": "+++ x/{p}\n"},
    {"arguments": '{"input": "*** Begin Patch\\n*** Add File: {p}\\n+x\\n*** End Patch"}'},
]


TO_POLICIES = [
    *_lines(r"""
echo x > policies/base.yaml
echo x >policies/base.yaml
echo x>policies/base.yaml
echo x >| policies/base.yaml
echo x >> policies/base.yaml
echo x 1>policies/base.yaml
>policies/base.yaml
: > ./policies//base.yaml
echo x > data/../policies/base.yaml
echo x > "policies/base.yaml"
echo x > 'policies'/base.yaml
echo x > pol''icies/ba""se.yaml
echo x > pol\icies/base.yaml
echo x > $PWD/policies/base.yaml
echo x > "${PWD}/policies/base.yaml"
echo x > $FOLDER/base.yaml
echo x > ${FOLDER}/base.yaml
echo x > ${NO_SUCH:-policies}/base.yaml
echo x > ${NO_SUCH-pol}icies/base.yaml
d=policies; echo x > $d/base.yaml
p=pol q=icies; echo x > $p$q/base.yaml
p=pol; q=icies; echo x > "${p}${q}/base.yaml"
f() { echo x > $d/base.yaml; }; d=policies; f
export d=policies && echo x > $d/base.yaml
for d in data policies; do echo x > $d/base.yaml; done
echo x > $(echo policies)/base.yaml
echo x > pol$(echo ic)ies/base.yaml
echo x > pol`echo ic`ies/base.yaml
echo x > $(printf %s%s pol icies)/base.yaml
echo x > pol$()icies/base.yaml
echo x > pol$(true)icies/base.yaml
echo x > pol$NO_SUCH"icies/base.yaml"
rm policies/base.yaml
rm -rf policies
rm -rf ./policies/
rm -rf ../app
rm pol*/base.yaml
rm p?licies/base.yaml
rm [p]olicies/base.yaml
rm policie[^a]/base.yaml
rm policie[!a]/base.yaml
rm policie[[:alpha:]]/base.yaml
rm policie[r-t]/*.yaml
rm link/base.yaml
cd policies && rm base.yaml
cd policies; echo x > base.yaml
cd data && rm ../policies/base.yaml
cd data; cd ..; cd data/deep; rm ../../policies/base.yaml
(cd data/deep && echo x > ../../policies/base.yaml)
cd ..; rm app/policies/base.yaml
mv policies data/away
mv policies/base.yaml data/away.yaml
cp notes.txt policies/base.yaml
cp -fT notes.txt policies/base.yaml
dd if=notes.txt of=policies/base.yaml
tee policies/base.yaml < notes.txt
cat notes.txt | tee ./policies/base.yaml
sed -i s/a/b/ policies/base.yaml
truncate -s0 policies/base.yaml
ln -sf ../notes.txt policies/base.yaml
sort -opolicies/base.yaml notes.txt
sort --output=policies/base.yaml notes.txt
sort -uopolicies/base.yaml notes.txt
tar -cfpolicies/base.yaml notes.txt
mv notes.txt base.yaml; tar -cf data/t.tar base.yaml; tar -xf data/t.tar -Cpolicies
mv notes.txt base.yaml; tar -cf data/t.tar base.yaml; tar -xf data/t.tar --directory=policies
env -C policies rm base.yaml
eval "rm policies/base.yaml"
eval 'rm pol''icies/base.yaml'
sh -c 'rm policies/base.yaml'
sh -c "rm pol''icies/base.yaml"
sh -c 'sh -c "rm policies/base.yaml"'
echo 'rm policies/base.yaml' | sh
printf 'rm %s' policies/base.yaml | sh
printf '\162\155 pol\151cies/base.yaml' | sh
echo policies/base.yaml | xargs rm
true && { rm policies/base.yaml; }
if true; then rm policies/base.yaml; fi
! rm policies/base.yaml
rm -- policies/base.yaml
find policies -name '*.yaml' -delete
find . -path ./policies/base.yaml -delete
sh -c 'rm "$1"' x policies/base.yaml
set -- policies/base.yaml; rm "$1"
trap 'rm policies/base.yaml' EXIT
"""),
    "echo x > pol\\\nicies/base.yaml",
    "sh <<E\nrm policies/base.yaml\nE\n",
    "sh <<'E'\nrm 'policies/base.yaml'\nE\n",
    "cat > policies/base.yaml <<-E\n\tdon't\n\tE\n",
    "cat <<'A' > data/x; rm policies/base.yaml\nit's\nA\n",
    "echo hello # don't\nrm policies/base.yaml # '",
]

TO_POLICIES_IN_BASH = _lines(r"""
rm {data,policies}/base.yaml
rm pol{icies,}/base.yaml
rm policies/{base,other}.yaml
rm policie{r..t}/base.yaml
rm $'policies/base.yaml'
rm $'pol\x69cies/base.yaml'
rm $'pol\151cies/base.yaml'
rm $'pol\u0069cies'/base.yaml
rm $"policies/base.yaml"
rm pol$'\x69'cies/base.yaml
echo x &> policies/base.yaml
echo x >& policies/base.yaml
sh <<< 'rm policies/base.yaml'
p=pol; p+=icies; rm $p/base.yaml
p=xpolicies; rm ${p:1}/base.yaml
p=policiesxx; rm ${p:0:8}/base.yaml
pushd policies; rm base.yaml
declare d=policies; rm $d/base.yaml
""")

SEEN_ON_DISK_ONLY = ["rm -rf ../app", "rm link/base.yaml"]
"""What a hook file cannot see: what is in a folder, and where a link leads."""

DESTROY = [
    *_lines(r"""
rm -rf {v}
rm -fr {v}
rm -r -f {v}
rm -f -r {v}
rm -Rf {v}
rm -rvf -- {v}
rm --recursive --force {v}
rm --rec --forc {v}
rm -r --force {v}
rm {v} -rf
rm -rf "{v}"
rm -rf '{v}'
r''m -rf {v}
r"m" -rf {v}
'rm' -rf {v}
"rm" -r"f" {v}
r\m -rf {v}
\rm -rf {v}
rm   -rf   {v}
rm${IFS}-rf${IFS}{v}
rm$IFS-rf$IFS{v}
r$@m -rf {v}
r${NO_SUCH}m -rf {v}
r$(true)m -rf {v}
r``m -rf {v}
$(echo rm) -rf {v}
`echo rm` -rf {v}
$(printf rm) -rf {v}
$(printf %s%s r m) -rf {v}
$(printf '\162\155') -rf {v}
$(echo rm -rf {v})
a=rm; $a -rf {v}
a=r b=m; $a$b -rf {v}
a="rm -rf {v}"; $a
a=-rf; rm $a {v}
x={v}; rm -rf $x
x={v}; rm -rf "$x"
x={v}; rm -rf "${x}"
a=rm; b=-rf; c={v}; $a $b $c
eval rm -rf {v}
eval 'rm -rf {v}'
eval "r""m -rf {v}"
sh -c 'rm -rf {v}'
sh -c "rm -r -f '{v}'"
sh -c 'sh -c "rm -fr {v}"'
echo 'rm -rf {v}' | sh
echo rm -fr {v} | sh
printf '\162\155 -fr {v}' | sh
printf 'rm -fr %s' {v} | sh
echo {v} | xargs rm -fr
echo {v} | xargs -n1 rm -r -f
ls;rm -fr {v}
true&&rm -fr {v}
false||rm -fr {v}
ls|rm -fr {v}
(rm -fr {v})
{ rm -fr {v}; }
if true; then rm -fr {v}; fi
for f in {v}; do rm -fr $f; done
while true; do rm -fr {v}; break; done
echo $(rm -fr {v})
echo `rm -fr {v}`
echo "$(rm -fr "{v}")"
env rm -fr {v}
env A=b rm -fr {v}
A=b rm -fr {v}
command rm -fr {v}
exec rm -fr {v}
rm -fr {v} >/dev/null 2>&1
>/dev/null rm -fr {v}
rm >/dev/null -fr {v}
rm -fr 2>/dev/null {v}
rm -fr 2>&1 {v}
trap 'rm -fr {v}' EXIT
f() { rm -fr {v}; }; f
f() { rm -fr $x; }; x={v}; f
rm -fr /{v}
find {v} -maxdepth 0 -exec rm -fr {} +
/bin/r? -fr {v}
/bin/[r]m -fr {v}
env /*/rm -fr {v}
rm -fr "$PWD/../victim"
"""),
    "rm \\\n -rf {v}",
    "rm -r\\\nf {v}",
    "rm\t-rf\t{v}",
    "sh <<E\nrm -fr {v}\nE\n",
    "sh <<'E'\nrm -fr '{v}'\nE\n",
    "echo hello # don't\nrm -fr {v} # '",
]

DESTROY_IN_BASH = _lines(r"""
{rm,-rf,{v}}
{rm,-r,-f} {v}
r{m,} -rf {v}
$'rm' -rf {v}
$'\x72\x6d' -rf {v}
$'\162\155' -fr {v}
$'\u0072'm -fr {v}
r$'\x6d' -fr $'{v}'
a=xrm; ${a:1} -fr {v}
a=r; a+=m; $a -fr {v}
sh <<< 'rm -fr {v}'
rm -fr {v}{,}
rm -fr &>/dev/null {v}
""")


NAMES_BUILT = [
    *_lines(r"""
rm {p..p..1}olicies/base.yaml
rm {p,q}olicies/{b..b..1}ase.yaml
rm pol{i..i}cies/base.yaml
rm $'pol\0xyz'icies/base.yaml
rm $'\x{70}olicies/base.yaml'
rm $'pol\1511'*/base.yaml || rm $'pol\151'cies/base.yaml
echo x > ~+/policies/base.yaml
echo x > ~+/conf/policy.yaml
cd conf; cd ..; echo x > ~-/policy.yaml
cd conf; echo x > $PWD/../policies/base.yaml
cd conf; echo x > $PWD/policy.yaml
cd conf; cd ..; echo x > $OLDPWD/policy.yaml
cd conf; echo x > ${PWD}/policy.yaml
cd data; cd ../conf; cd ../data; cd -; echo x > policy.yaml
pushd conf; pushd ../data; popd; echo x > policy.yaml
HOME=conf; echo x > ~/policy.yaml
HOME=conf; cd; echo x > policy.yaml
HOME=$PWD/conf; cd ~; echo x > policy.yaml
CDPATH=..; cd app/conf; echo x > policy.yaml
CDPATH=conf; mkdir -p conf/sub; cd sub; echo x > ../policy.yaml
cd data/deep; for i in 1 2; do cd ..; done; echo x > conf/policy.yaml
set -- pol icies base.yaml; echo x > $1$2/$3
set -- a conf policy.yaml; shift; echo x > $1/$2
f() { rm -rf $1$2; }; f pol icies
f() { for x; do y=$y$x; done; echo x > $y; }; f con f/poli cy.yaml
a=(pol icies); echo x > ${a[0]}${a[1]}/base.yaml
a=x; a[0]=conf; echo x > $a/policy.yaml
declare -A a; a[x]=conf; echo x > ${a[x]}/policy.yaml
x=spolicies; echo x > ${x#s}/base.yaml
x=policiess; echo x > ${x%s}/base.yaml
x=POLICIES; echo x > ${x,,}/base.yaml
x=POLICIES; declare -l y=$x; echo x > $y/base.yaml
declare -l y; y=POLICIES; echo x > $y/base.yaml
x=pXlicies; echo x > ${x/X/o}/base.yaml
x=xpolicies; echo x > ${x: -8}/base.yaml
x=xxxxxxxxpolicies; echo x > ${x:010}/base.yaml
x=conf y=x; echo x > ${!y}/policy.yaml
declare -n y=x; x=conf; echo x > $y/policy.yaml
: ${x:=conf}; echo x > $x/policy.yaml
: ${x:=co}; echo x > ${x}nf/policy.yaml
echo x > ${a:-${b:-${c:-${d:-${e:-policies}}}}}/base.yaml
read a b <<< 'pol icies'; echo x > $a$b/base.yaml
IFS=_ read a b <<< pol_icies; echo x > $a$b/base.yaml
mapfile -t a < <(printf 'pol\nicies\n'); echo x > ${a[0]}${a[1]}/base.yaml
x=rm_-rf_pol_icies; IFS=_; set -- $x; $1 $2 $3$4
printf -v x %s%s pol icies; echo x > $x/base.yaml
[[ xpolicies =~ x(.*) ]]; echo x > ${BASH_REMATCH[1]}/base.yaml
x=$(tr X o <<< pXlicies); echo x > $x/base.yaml
x=$(echo pol; echo icies); echo x > ${x/[[:space:]]/}/base.yaml
echo x > "$(printf pol; printf icies)/base.yaml"
echo x > $(printf '%b' 'pol\0151cies')/base.yaml
echo x > "$(echo {p..p})olicies/base.yaml"
if false; then p=x; fi; echo x > pol${p}icies/base.yaml
false && p=x; echo x > pol${p}icies/base.yaml
true || p=x && echo x > pol${p}icies/base.yaml
(p=x); echo x > pol${p}icies/base.yaml
p=x | true; echo x > pol${p}icies/base.yaml
true | p=x; echo x > pol${p}icies/base.yaml
p=x true; echo x > pol${p}icies/base.yaml
echo for p in x; echo x > pol${p}icies/base.yaml
if false; then p=x; \if; fi; echo x > pol${p}icies/base.yaml
case a in b) p=x;; esac; echo x > pol${p}icies/base.yaml
if false; then p=x; echo 'if so'; fi; echo x > pol${p}icies/base.yaml
p=; for c in pol ic ies; do p=$p$c; done; echo x > $p/base.yaml
p=; set -- p o l i c i e s; while [ $# != 0 ]; do p=$p$1; shift; done; echo x > $p/base.yaml
exec 3<conf; echo x > /dev/fd/3/policy.yaml
exec 3<conf; echo x > /proc/self/fd/3/policy.yaml
cd conf; exec 3<.; cd ..; echo x > /proc/$$/fd/3/policy.yaml
echo x > /proc/self/cwd/conf/policy.yaml
x=spolicies/base.yaml; exec 3<${x#s}; echo x > /dev/fd/3
ln -s conf q; echo x > q/policy.yaml
ln -s . q; echo x > q/conf/policy.yaml
rm lin?/base.yaml
rm l*/base.yaml
mkdir a; x='x/../policies/base.yaml'; echo x > a/${x#x/}
ln -s ../conf data/q; echo x > data/q/policy.yaml
ln -s ../policies/base.yaml data/q; echo x > data/q
c=scd; c=${c#s}; $c conf; echo x > policy.yaml
o=s-C; env ${o#s} conf rm policy.yaml
x=sconf; PS4='$(rm -rf ${x#s})'; set -x; :
x=sconf; y='$(rm -rf ${x#s})'; : "${y@P}"
x=sconf; [[ -v 'a[$(rm -rf ${x#s})]' ]]
x=sconf; let 'a[$(rm -rf ${x#s})]=1'
x=sconf; compgen -C 'rm -rf ${x#s}'
function f { rm -rf $1$2; }; f con f
echo `#`; rm -rf conf
x=sconf; echo `echo \`rm -rf \${x#s}\``
find . -name 'ba*' -delete
rm -rf $(ls | grep ^pol | head -1)
d=$(echo cG9saWNpZXMK | base64 -d); rm -rf $d
sh -c 'd=policiess; rm -rf ${d%s}'
d=policiess; eval 'rm -rf ${d%s}'
echo 'd=policiess; rm -rf ${d%s}' | sh
"""),
    "sh <<'E'\nd=policiess; rm -rf ${d%s}\nE\n",
    "cat <<E\n$(d=policiess; rm -rf ${d%s})\nE\n",
    "cat <<$'E'\nE\nx=sconf; rm -rf ${x#s}",
    "shopt -s expand_aliases; BASH_ALIASES[cat]=rm\ncat conf/*.yaml",
    "shopt -s extglob\nrm -rf pol@(icies)",
    "shopt -s extglob\nrm -rf @(p)ol+(ic)ies",
    "shopt -s extglob\nrm -rf !(data|conf|home|notes.txt)",
    "shopt -s nocaseglob\nrm -rf POL*",
    "shopt -s globstar\nrm **/base.yaml",
    "shopt -s expand_aliases\nalias cat=rm\ncat pol*/base.yaml",
    "p=pol$[1]; p=${p%1}; echo x > ${p}icies/base.yaml",
    "mkdir -p policies1; mv policies policies1; mv policies$[1]/policies x",
    "x=POLICIES; trap 'rm -rf ${x,,}' EXIT",
    "false &&\np=x; echo x > pol${p}icies/base.yaml",
]
"""Names that bash puts together itself, for `policies/base.yaml` and `conf/policy.yaml`."""

WRITTEN_ELSEWHERE = [
    *_lines(r"""
sed -n wpolicies/base.yaml notes.txt
sed -n 's/x/y/wconf/policy.yaml' notes.txt
sed -n 'sxaxbx;wconf/policy.yaml' notes.txt
curl -s --output-dir conf -o policy.yaml file://$PWD/notes.txt
curl -s --output-dir ./conf -o policy.yaml file://$PWD/notes.txt
cp notes.txt data/policy.yaml; cp -t conf data/policy.yaml
cp notes.txt data/policy.yaml; cp --target-directory=conf data/policy.yaml
cp notes.txt data/policy.yaml; cp data/policy.yaml conf
cp notes.txt data/policy.yaml; cp data/policy.yaml co?f
cp notes.txt data/policy.yaml; mv data/policy.yaml con*/
cp notes.txt data/policy.yaml; mv data/policy.yaml ./*/../conf
cp notes.txt data/policy.yaml; install data/policy.yaml conf
cp notes.txt data/policy.yaml; cd conf; cp ../data/policy.yaml .
cp notes.txt data/policy.yaml; cp data/*.yaml conf
cp notes.txt data/policy.yaml; cp data/* conf
mkdir -p data/conf; cp notes.txt data/conf/policy.yaml; cp -r data/conf .
mkdir -p data/conf; cp notes.txt data/conf/policy.yaml; cp -r data/. .
mkdir -p data/conf; cp notes.txt data/conf/policy.yaml; cp -r data/* .
mkdir -p data/conf; cp notes.txt data/conf/policy.yaml; cp -rT data .
mkdir -p data/conf; cp notes.txt data/conf/policy.yaml; rsync -a data/ .
mkdir -p data/none; rsync -a --delete data/none/ conf/
tar -cf t.tar --remove-files conf
tar -C conf -cf t.tar --remove-files policy.yaml
git init -q .; git clean -fdxq
git init -q .; git clean -fdxq conf
git init -q .; git -C conf clean -fdxq
rm -rf *
rm -rf ./*
rm -rf con?
rm -rf [c]onf
rm -rf */
rm -rf {data,con?}
mv conf* x
mv con[f] x
/bin/r? -rf conf
/bin/[r]m -rf con*
r=rm; x=${r#s}; $x -rf conf
set -- rm; $1 -rf conf
set -- rm -rf conf; $1 $2 $3
set -- rm -rf conf; "$@"
chmod -R 0 conf; rm -rf con?
find conf -delete
find con? -delete
find -delete
find . -delete
find -name policy.yaml -delete
find -name 'p*' -delete
find .. -name '*.yaml' -delete
find -type f -exec rm {} +
find . -exec rm {} ';'
find conf -exec sh -c 'rm "$1"' x {} ';'
find . -name '*.txt' -o -name '*.yaml' -exec rm -f {} +
find . -name '*.yaml' -exec cp notes.txt {} ';'
find . -name '*.yaml' -exec sed -i s/as/xx/ {} +
find . -name '*.yaml' | xargs rm
find . -type f | xargs -n 1 rm
ls conf/* | xargs rm
printf '%s\n' * | xargs rm -rf
for f in conf/*; do rm "$f"; done
for f in *; do rm -rf "$f"; done
for f in */*.yaml; do echo x > "$f"; done
ls | while read f; do rm -rf "$f"; done
env -C conf rm policy.yaml
env -C conf sh -c 'rm policy.yaml'
(cd conf && rm *)
cp notes.txt data/policy.yaml; find data -name '*.yaml' -exec cp {} conf ';'
echo con? > data/list; xargs -a data/list rm -rf
cp data/../notes.txt cat; echo conf > cat; xargs -a cat rm -rf
cd conf && rm -- *
cd con? && echo x > policy.yaml
tee -a conf/p* < notes.txt
dd if=notes.txt of=conf/p* status=none; truncate -s0 conf/p*
cat notes.txt | tee con?/policy.yaml
ln -f notes.txt conf/p*.yaml
cp -rl conf q; echo x > q/policy.yaml
split -l 1 notes.txt conf/policy.; mv conf/policy.aa conf/policy.yaml
"""),
]
"""Programs that write by an option, in another place, or whatever a pattern fits."""

DESTROY_BUILT = [
    *_lines(r"""
{r..r..1}m -rf {v}
r$'\0x'm -rf {v}
$'r\x{6d}' -rf {v}
set -- rm; $1 -rf {v}
set -- rm -rf; "$@" {v}
a=(rm -rf); "${a[@]}" {v}
a=(r m); ${a[0]}${a[1]} -rf {v}
x=RM; ${x,,} -rf {v}
x=srm; ${x#s} -rf {v}
read x <<< rm; $x -rf {v}
x=mr; "${x:1:1}${x:0:1}" -rf {v}
x='rm -rf'; y=$(tr a a <<< "$x"); $y {v}
f() { "$@"; }; f rm -rf {v}
set -- {v}; rm -rf "$1"
x=s{v}; rm -rf "${x#s}"
cd {v}/..; rm -rf *
cd {v} && rm -rf ../victim
cd {v}; rm -rf $PWD
cd {v}; rm -rf ~+
find {v} -delete
find {v} -exec rm -r {} +
find {v} -depth -exec rm -d {} ';'
find {v} | xargs rm -rf
HOME={v}; rm -rf ~
HOME={v}; cd; rm -rf "$PWD"
HOME={v}; rm -r -f ~/../victim
if false; then p=x; fi; r${p}m -rf {v}
"""),
    "cat <<E\n$(x=srm; ${x#s} -rf {v})\nE\n",
]

UNSEEN = [
    "echo cm0gLXJmIHBvbGljaWVz | base64 -d | sh",
    'python3 -c \'import shutil; shutil.rmtree("pol" + "icies")\'',
    'awk \'BEGIN { system("rm -rf pol" "icies") }\'',
]

HARMLESS_COMMANDS = [
    *_lines(r"""
echo $x
echo "$x is done"
echo "total: $n" && ls
echo $@ "$@" $1
ls *
ls -la */
ls $dir
cat $file
cat "$1"
grep foo $file
grep -rn "$pattern" src
grep foo data/*
head -n "$n" notes.txt
wc -l *
cat notes.txt | while read line; do echo "$line"; done
while IFS= read -r line; do echo "- $line"; done < notes.txt
for f in *; do echo "$f"; done
for f in $(ls); do wc -l "$f"; done
for i in 1 2 3; do mkdir -p out$i; done
for ((i=0; i<3; i++)); do echo "$i" > out_$i.txt; done
for f in data/*.txt; do mv "$f" "$f.bak"; done
if [ -z "$x" ]; then echo none; fi
[ "$x" = y ] && echo yes
test -n "$x" || echo "x is not set"
case $x in a) echo b;; *) echo c;; esac
export PATH=$PATH:$extra
x=$(git rev-parse HEAD); echo "$x"
d=build; if [ -d $d ]; then rm -rf $d; fi; mkdir $d
d=build; rm -rf $d/x "$d"/*
d=$(mktemp -d); cp notes.txt $d; tar -czf $d/t.tgz notes.txt; rm -rf $d/t.tgz
n=$((1 + 2)); echo x > data/out$n.txt
echo "exit code: $?"; echo "$#" > data/n.txt
make test > log-$(date +%F).txt 2>&1
cd data && make; cd - && ls
cd data && ls; cd .. && rm -f data/a.tmp
pushd data; ls; popd
mkdir -p "$HOME/.cache/x"
cp notes.txt data/
cp notes.txt .
cp -r data/deep data/other
mv data/a data/b
ln -s data/a.txt data/b.txt
find . -name '*.pyc' -delete
find . -name '*.txt'
find . -name __pycache__ -type d -exec rm -rf {} +
find . -name '*.py' -exec grep -l foo {} +
find . -type f | xargs grep foo
find data -type f -exec chmod 644 {} +
git commit -m "fix $x"
git commit -m 'Use `rm $x` no more'
git add *
git push origin main
((total += $n)); echo "$total"
node -e 'console.log(`a ${b}`)'
function f { echo "$1"; }
git commit -m "see \`x\`"
git checkout -b feature
sed -i 's/foo/bar/w' data/a.txt
sed -n 's/wide/narrow/p' notes.txt
awk '{print $1}' notes.txt
awk -F, '{ sum += $2 } END { print sum }' notes.txt
python3 -c "print(f'{x}')"
curl -s "https://example.com/api/$id"
curl -H "Authorization: Bearer $token" https://example.com
bash data/build.sh && echo "exit: $?"
sh -c 'echo "$1"' x y
$(which python3) -m pytest -q
"$python" -m pytest -q
tar -czf data/t.tgz -C data deep
docker run -v "$PWD/data:/data" alpine ls /data
test -f notes.txt > /dev/null 2>&1
ls > /dev/stderr
"""),
    'cat > data/x.sh <<\'E\'\nfor f in "$@"; do rm "$f"; done\nE\n',
    "python3 - <<'E'\nx = [1, 2]\nprint(x[0], *x)\nE\n",
]
"""With names that only running them tells: read, or written where nothing protected can be."""


ORDINARY: list[tuple[str, dict[str, Any]]] = [
    ("view_file", {"path": "notes.txt"}),
    ("view_file", {"file_path": "./data//deep/./a.txt", "offset": 3, "limit": 20}),
    ("view_file", {"path": "a..b/...txt"}),
    ("view_file", {"path": "[id]/page.tsx"}),
    ("view_file", {"path": "{a,b}.txt"}),
    ("view_file", {"path": "it's here.txt"}),
    ("view_file", {"paths": ["data/a", "data/b"]}),
    ("list_directory", {"path": "."}),
    ("search_directory", {"path": ".", "query": "import .*policies"}),
    ("find_file", {"directory": ".", "pattern": "*.yaml"}),
    ("create_file", {"path": "data/a.txt", "content": "hello"}),
    (
        "create_file",
        {"path": "docs/policies.md", "content": "# Policies\n\nSee `policies/a.yaml`."},
    ),
    ("create_file", {"path": "docs/a.md", "content": "policies/base.yaml"}),
    ("create_file", {"path": "x.patch", "content": "--- a/../x\n+++ b/policies/base.yaml\n"}),
    ("create_file", {"path": "x.sh", "content": "#!/bin/sh\nrm -rf /tmp/x\n"}),
    ("create_file", {"path": "tsconfig.json", "content": '{"files": ["../a.ts"], "path": "/x"}'}),
    ("create_file", {"path": "data/long.txt", "content": "a line\n" * 2000}),
    ("create_file", {"path": "data/min.js", "content": "x=1/2;" * 2000}),
    ("create_file", {"files": {"data/a.py": "import os\nprint(os.sep)\n", "Makefile": "a:\n\tls"}}),
    ("create_file", {"files": [{"path": "data/a.c", "content": "/* x */\nint x;"}]}),
    ("create_file", {"path": "src/policies_test.py", "content": "x"}),
    ("create_file", {"path": "policies.txt", "content": "x"}),
    ("edit_file", {"path": "a.py", "old_string": "../x", "new_string": "/etc/passwd"}),
    ("edit_file", {"path": "a.py", "edits": [{"old_text": "a", "new_text": "policies"}]}),
    ("edit_file", {"path": "a.py", "diff": "@@ -1 +1 @@\n-a\n+b\n"}),
    ("edit_file", {"path": "a.py", "diff": "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n"}),
    ("edit_file", {"patch": "*** Begin Patch\n*** Update File: data/a.py\n@@\n-a\n+b"}),
    ("edit_file", {"path": "data/a.txt", "move_to": "data/b.txt"}),
    ("edit_file", {"path": "data/a.txt", "instructions": "Use the rules in policies/base.yaml"}),
    ("search_web", {"query": "what is in /etc/passwd"}),
    ("send_email", {"to": "a@example.com", "target": "everyone", "body": "see /etc/passwd"}),
    ("book", {"from": "Berlin", "to": "Paris", "n": 2, "when": None, "flags": [True, 1.5]}),
]

ORDINARY_COMMANDS = [
    *_lines(r"""
ls
ls -la
ls -la data/*
pwd
echo hello
echo "it's done" && date
cat notes.txt
cat data/a.txt | head -20
grep -rn "policy" data
grep -rf patterns data
git status
git add -A && git commit -m "Explain the policy of the house"
git log --oneline | head -5
python -c "print(1 + 1)"
python -m pytest tests -q -k 'policy and not files'
pip install requests
make test
npm run build -- --out=dist
rm notes.txt
rm -rf build
rm -rf data/*
rm -rf build > /dev/null
rm -rf ./build ./dist 2>/dev/null
mkdir -p data/x && cd data/x && touch y
cd data && make
for f in data/*.txt; do wc -l "$f"; done
d=$(mktemp -d) && cp notes.txt $d/ && ls $d
x=1; echo $((x + 1))
curl -sS -o data/out.json https://example.com/policies/base.yaml
curl -d @data/in.json https://example.com
tar -czf data/t.tgz -C data deep
sed -i 's/a/b/g' data/a.txt
awk '{print $1}' notes.txt
find data -name '*.pyc' -delete
docker run -v "$PWD/data:/data" alpine ls /data
test -f notes.txt || echo none
echo policies.md
ssh host 'uptime'
~nobody-of-this-name/x
"""),
    "cat > data/x.txt <<E\nit's a text\nE\n",
    "python - <<'E'\nprint('hello')\nE\n",
]
