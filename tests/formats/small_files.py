"""Small files in the dialects that people use, as text."""

HEADER = "idstatefrom,idaction,idstateto,probability,reward\n"

# Two coins and a way out, counted from 0; the rows of (0, 0) lead to one state at two rewards.
ZERO_BASED = HEADER + (
    "0,0,0,0.25,1.5\n0,0,0,0.25,-2\n0,0,1,0.5,0\n0,1,1,1,-0.125\n1,0,2,0.75,3\n1,0,0,0.25,0\n2,0,2,1,0\n"
)

# The same, counted from 1, with quoted names.
ONE_BASED = '"idstatefrom","idaction","idstateto","probability","reward"\n' + (
    "1,1,1,0.25,1.5\n1,1,1,0.25,-2\n1,1,2,0.5,0\n1,2,2,1,-0.125\n2,1,3,0.75,3\n2,1,1,0.25,0\n3,1,3,1,0\n"
)

# The same, with names.
NAMED = HEADER + (
    "home,go,home,0.25,1.5\nhome,go,home,0.25,-2\nhome,go,away,0.5,0\nhome,fly,away,1,-0.125\n"
    "away,go,end,0.75,3\naway,go,home,0.25,0\nend,go,end,1,0\n"
)

# idoutcome as alternatives: each sums to 1 by itself.
ALTERNATIVES = "idstatefrom,idaction,idstateto,idoutcome,probability,reward\n" + (
    "0,0,1,0,1,-1\n0,0,1,1,1,1\n0,0,0,2,0.5,0\n0,0,1,2,0.5,0\n1,0,1,0,1,0\n"
)

# idoutcome as a number: all outcomes of an action sum to 1 together.
NUMBERED = "idstatefrom,idaction,idoutcome,idstateto,probability,cost\n" + (
    "0,0,0,1,0.5,4\n0,0,1,1,0.5,2\n1,0,0,1,1,0\n"
)

STORM_TRA = "mdp\n0 0 0 0.5\n0 0 1 0.5\n0 1 2 1\n1 0 2 1.0\n2 0 2 1\n"
STORM_LAB = "#DECLARATION\ninit goal\n#END\n0 init\n2 goal\n"
STORM_SREW = "0 1\n1 2.5\n"
STORM_TREW = "0 0 1 3\n0 1 2 10\n"

PRISM_TRA = "3 4 5\n0 0 0 0.5 toss\n0 0 1 0.5 toss\n0 1 2 1 leap\n1 0 2 1.0 walk\n2 0 2 1 stay\n"
PRISM_LAB = '0="init" 1="goal"\n0: 0\n2: 1\n'
PRISM_SREW = '# Reward structure "r"\n# State rewards\n3 2\n0 1\n1 2.5\n'
PRISM_TREW = "# Transition rewards\n3 4 2\n0 0 1 3\n0 1 2 10\n"

INFO = "domain,initstate,discount\nother.csv,3,0.5\nmodel.csv,2,0.9\n"

PRISM_MODEL = """mdp
const int N;
const double p = 0.5;
module walk
  x : [0..N] init 0;
  [slow] x<N -> (x'=x+1);
  [fast] x<N-1 -> p : (x'=x+2) + 1-p : (x'=0);
  [stay] x=N -> true;
endmodule
label "goal" = x=N;
label "home" = x=0;
rewards "time"
  x<N : 1;
endrewards
rewards "energy"
  [fast] true : 5;
  [slow] true : 1;
endrewards
"""


def write(folder, **files):
    """Write files, named by keyword with ``_`` before the extension, and return the first one's path."""
    paths = []
    for name, text in files.items():
        path = folder / name.replace("__", ".")
        path.write_text(text, encoding="utf-8", newline="")
        paths.append(path)
    return paths[0]
